import java.io.File;
import java.net.InetSocketAddress;
import org.apache.bookkeeper.conf.ServerConfiguration;
import org.apache.bookkeeper.util.LocalBookKeeper;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** One bookie, and a ZooKeeper for what it is told about ledgers: {@code BookKeeperServer PORT-OF-ZOOKEEPER FOLDER CONFIGURATION}. */
final class BookKeeperServer {
    private static final String HOST = "127.0.0.1";
    private static final int TICK_MS = 3000;
    private static final int CLIENTS_MAX = 100;

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        File folder = new File(arguments[1]);
        // How the bookie asks whether it is there.
        System.setProperty("zookeeper.4lw.commands.whitelist", "srvr,stat");
        ServerCnxnFactory.createFactory(new InetSocketAddress(HOST, port), CLIENTS_MAX)
            .startup(new ZooKeeperServer(folder, folder, TICK_MS));
        ServerConfiguration configuration = new ServerConfiguration();
        configuration.loadConf(new File(arguments[2]).toURI().toURL());
        // On a port of its own choice.
        LocalBookKeeper.getLocalBookies(HOST, port, 1, false, configuration).start();
        System.out.println("ready");
        Thread.currentThread().join();
    }

    private BookKeeperServer() {}
}

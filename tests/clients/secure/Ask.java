import java.sql.DriverManager;

/** Connects with each URL of the command line, and prints the user of the session or the SQLSTATE of the refusal. */
public final class Ask {
    public static void main(String[] urls) throws Exception {
        for (String url : urls) {
            try (var connection = DriverManager.getConnection(url);
                 var rows = connection.createStatement().executeQuery("SELECT current_user")) {
                rows.next();
                System.out.println("as " + rows.getString(1));
            } catch (java.sql.SQLException error) {
                System.out.println("refused " + error.getSQLState() + " " + String.valueOf(error.getMessage()).replace('\n', ' '));
            }
        }
    }
}

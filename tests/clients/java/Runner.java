import java.io.PrintWriter;
import java.io.StringWriter;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Comparator;

/**
 * Runs the tests of the classes named as arguments: static methods that take a {@link Session}.
 * Prints for each a line "== STATUS CLASS.METHOD", and below it what a failure has to say.
 */
final class Runner {
    private static final long SECONDS_MAX = 40;

    static final class Skipped extends RuntimeException {
        private static final long serialVersionUID = 1;

        Skipped(String why) {
            super(why);
        }
    }

    public static void main(String[] classes) throws Exception {
        for (String name : classes) {
            Method[] methods = Class.forName(name).getDeclaredMethods();
            Arrays.sort(methods, Comparator.comparing(Method::getName));
            for (Method method : methods) {
                if (method.getReturnType() == void.class && !Modifier.isPrivate(method.getModifiers())
                    && Arrays.equals(method.getParameterTypes(), new Class<?>[] {Session.class})) {
                    within(name + "." + method.getName(), method);
                }
            }
        }
        // A failed test may have left threads behind.
        System.exit(0);
    }

    /** A test that hangs fails, and the others go on. */
    private static void within(String name, Method method) throws InterruptedException {
        Thread thread = new Thread(() -> run(name, method));
        thread.start();
        thread.join(SECONDS_MAX * 1000);
        if (thread.isAlive()) {
            Throwable hung = new AssertionError("it hangs");
            hung.setStackTrace(thread.getStackTrace());
            fail(name, hung);
        }
    }

    private static void run(String name, Method method) {
        try (Session session = new Session(method.getName())) {
            method.invoke(null, session);
            System.out.println("== pass " + name);
        } catch (InvocationTargetException error) {
            if (error.getCause() instanceof Skipped) {
                System.out.println("== skip " + name + "\n" + error.getCause().getMessage());
            } else {
                fail(name, error.getCause());
            }
        } catch (Exception error) {
            fail(name, error);
        }
    }

    private static void fail(String name, Throwable error) {
        StringWriter trace = new StringWriter();
        error.printStackTrace(new PrintWriter(trace));
        System.out.println("== fail " + name + "\n" + trace);
    }

    private Runner() {}
}

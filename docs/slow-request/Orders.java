import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

/** Tells prices over HTTP: `java Orders.java PORT`. Twice a second it reads all prices anew; with `mended` not while others wait for them. */
public class Orders {
    private Map<Integer, Integer> prices = new ConcurrentHashMap<>();

    synchronized int price(int article) {
        return prices.getOrDefault(article, 0);
    }

    /** All requests wait for the lock until the prices are there. */
    synchronized void reload() throws InterruptedException {
        prices = fromDatabase();
    }

    void reloadBeside() throws InterruptedException {
        Map<Integer, Integer> fresh = fromDatabase();
        synchronized (this) {
            prices = fresh;
        }
    }

    /** A query that takes 40 ms. */
    static Map<Integer, Integer> fromDatabase() throws InterruptedException {
        Thread.sleep(40);
        return IntStream.range(0, 1000).boxed().collect(Collectors.toMap(article -> article, article -> 3 * article));
    }

    public static void main(String[] arguments) throws Exception {
        Orders orders = new Orders();
        boolean isMended = arguments.length > 1 && arguments[1].equals("mended");
        Thread reload = new Thread(() -> {
            try {
                while (true) {
                    if (isMended) {
                        orders.reloadBeside();
                    } else {
                        orders.reload();
                    }
                    Thread.sleep(460);
                }
            } catch (InterruptedException stopped) {
                Thread.currentThread().interrupt();
            }
        }, "price-reload");
        reload.start();
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])), 64);
        server.setExecutor(Executors.newFixedThreadPool(4, task -> new Thread(task, "request")));
        server.createContext("/price", exchange -> {
            byte[] answer = (orders.price(7) + "\n").getBytes();
            exchange.sendResponseHeaders(200, answer.length);
            exchange.getResponseBody().write(answer);
            exchange.close();
        });
        server.start();
    }
}

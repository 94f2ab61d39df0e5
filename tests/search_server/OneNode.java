import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import PACKAGE.common.settings.Settings;
import PACKAGE.env.Environment;
import PACKAGE.node.InternalSettingsPreparer;
import PACKAGE.node.Node;
import PACKAGE.plugins.Plugin;
import PACKAGE.transport.Netty4Plugin;

/** A server of one node on loopback, with HTTP, from the jars of the package registry. Arguments: directory, port, transport port. */
public class OneNode {
    static final class WithHttp extends Node {
        WithHttp(Environment environment, Collection<Class<? extends Plugin>> plugins) {
            super(environment, plugins, true);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Path home = Path.of(arguments[0]).toAbsolutePath();
        Files.createDirectories(home.resolve("config"));
        Settings settings = Settings.builder()
            .put("path.home", home)
            .put("cluster.name", "test")
            .put("node.name", "one")
            .put("discovery.type", "single-node")
            .put("network.host", "127.0.0.1")
            .put("http.port", arguments[1])
            .put("transport.port", arguments[2])
            .put("http.type", "netty4")
            .put("transport.type", "netty4")
            .put("cluster.routing.allocation.disk.threshold_enabled", false)
            .build();
        Environment environment =
            InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home.resolve("config"), () -> "one");
        Node node = new WithHttp(environment, List.of(Netty4Plugin.class));
        node.start();
        Thread.currentThread().join();
    }
}

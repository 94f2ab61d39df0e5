"""The shoveler of the OSG and RabbitMQ, as the collectors of grids run them."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import urllib.request
from pathlib import Path

import pika

from .ground import REPOSITORY, Ground, MissingProgram
from .metrics import Metrics, parse
from .process import Process
from .waiting import until

USER, PASSWORD, EXCHANGE, QUEUE = "shoveler", "secret", "shoveled-xrd", "packets"
# Debian's wrapper permits root and its own user only.
SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server"
START_SECONDS = 120.0


class RabbitMq:
    """A message broker with a queue that gets all messages of the shoveler."""

    def __init__(self, ground: Ground) -> None:
        place = ground.directory("rabbitmq")
        self.port, names = ground.free_port(), ground.free_port()
        self.url = f"amqp://127.0.0.1:{self.port}/"
        (place / "definitions.json").write_text(json.dumps(definitions()))
        (place / "rabbitmq.conf").write_text(
            f"listeners.tcp.1 = 127.0.0.1:{self.port}\nload_definitions = {place / 'definitions.json'}\n"
        )
        environment = {
            "HOME": str(place),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_NODENAME": f"forebay{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(ground.free_port()),
            "RABBITMQ_CONFIG_FILE": str(place / "rabbitmq.conf"),
            "RABBITMQ_MNESIA_BASE": str(place / "data"),
            "RABBITMQ_LOG_BASE": str(place / "log"),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(place / "plugins"),
            "RABBITMQ_PID_FILE": str(place / "pid"),
            "RABBITMQ_CONF_ENV_FILE": str(place / "none"),
            # On a machine with few processors more threads of the runtime only wait for each other.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none",
        }
        # Otherwise the broker starts one, which outlives it.
        self.names = Process("epmd", ["epmd", "-port", str(names)], place, env=environment)
        self.process = Process("rabbitmq", [SERVER], place, env=environment)

    def __enter__(self) -> RabbitMq:
        self.process.wait_for_line("completed with .* plugins", within=START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()
        self.names.stop()

    def take(self) -> list[bytes]:
        """The messages that are in the queue now, the first one first."""
        account = pika.PlainCredentials(USER, PASSWORD)
        parameters = pika.ConnectionParameters("127.0.0.1", self.port, credentials=account)
        taken = []
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            while (message := channel.basic_get(QUEUE, auto_ack=True))[0] is not None:
                taken.append(message[2])
        return taken


def definitions() -> dict[str, object]:
    """User, exchange and queue, in the form that the broker loads at its start."""
    salt = b"salt"
    password = base64.b64encode(salt + hashlib.sha256(salt + PASSWORD.encode()).digest()).decode()
    algorithm = "rabbit_password_hashing_sha256"
    user = {"name": USER, "password_hash": password, "hashing_algorithm": algorithm, "tags": ""}
    rights = {"user": USER, "vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    exchange = {"name": EXCHANGE, "vhost": "/", "type": "fanout", "durable": True, "auto_delete": False}
    queue = {"name": QUEUE, "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    binding = {"source": EXCHANGE, "vhost": "/", "destination": QUEUE, "destination_type": "queue", "routing_key": ""}
    return {
        "users": [user],
        "vhosts": [{"name": "/"}],
        "permissions": [rights],
        "exchanges": [{**exchange, "internal": False, "arguments": {}}],
        "queues": [queue],
        "bindings": [{**binding, "arguments": {}}],
    }


class Shoveler:
    """A shoveler that passes on what it gets to a broker."""

    def __init__(self, ground: Ground, broker: RabbitMq) -> None:
        place = ground.directory("shoveler")
        self.port, self.metrics_port = ground.free_port(), ground.free_port()
        (place / "token").write_text(PASSWORD)
        (place / "config.yaml").write_text(
            f"mq: amqp\n"
            f"amqp: {{url: '{broker.url}', exchange: {EXCHANGE}, token_location: {place / 'token'}}}\n"
            f"listen: {{ip: 127.0.0.1, port: {self.port}}}\n"
            f"verify: true\n"
            f"metrics: {{enable: true, port: {self.metrics_port}}}\n"
            f"queue_directory: {place / 'queue'}\n"
        )
        self.process = Process("shoveler", [shoveler()], place)

    def __enter__(self) -> Shoveler:
        until(self._is_up, "the shoveler answers", within=START_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.stop()

    def _is_up(self) -> bool:
        assert self.process.is_running(), self.process.output()
        # It answers for its counters before it listens.
        if f" 0100007F:{self.port:04X} " not in Path("/proc/net/udp").read_text():
            return False
        try:
            return bool(self.metrics())
        except OSError:
            return False

    def metrics(self) -> Metrics:
        """Its counters."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as answer:
            # This form has no end mark.
            return parse(f"{answer.read().decode()}# EOF\n")


def shoveler() -> Path:
    """The program, which `make setup` builds."""
    built = Path(os.environ.get("SHOVELER", REPOSITORY / "target" / "tools" / "shoveler"))
    if not built.is_file():
        raise MissingProgram(f"{built} does not exist: run `make setup`")
    return built

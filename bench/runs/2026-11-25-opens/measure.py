"""Opens, single streams and random lengths in memory: Forebay before and after, XCache and the plain server, in turn.

Every server serves the same files from tmpfs. Usage: measure.py BENCH NAME=PROGRAM... [--rows a,b] [--rounds N] [--out FILE]
where NAME is plain, xcache or any name of a forebay.
"""

import argparse
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path("/dev/shm/forebay-opens")
HERTZ = os.sysconf("SC_CLK_TCK")


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def await_port(port):
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            time.sleep(0.05)
    raise TimeoutError(port)


def cpu_s(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


def refaults():
    lines = pathlib.Path("/proc/vmstat").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("workingset_refault_file"))


class Server:
    def __init__(self, name, program, origin):
        self.name, self.port = name, free_port()
        directory = ROOT / f"run-{name}"
        directory.mkdir(parents=True, exist_ok=True)
        store = directory / "store"
        environment = dict(os.environ)
        if name in ("plain", "xcache"):
            lines = [f"xrd.port {self.port}", f"all.adminpath {directory}", f"all.pidpath {directory}", "all.export / r/o"]
            if name == "plain":
                lines.append(f"oss.localroot {ROOT / 'files'}")
            else:
                lines += [f"oss.localroot {store}", "ofs.osslib libXrdPss.so", "pss.cachelib libXrdPfc.so",
                          f"pss.origin 127.0.0.1:{origin}", "pfc.ram 1g", "pfc.diskusage 0.98 0.99", "pfc.prefetch 0"]
            (directory / "cfg").write_text("\n".join(lines) + "\n")
            prefix = pathlib.Path(program).parent.parent
            environment["LD_LIBRARY_PATH"] = f"{prefix}/lib:{prefix}/lib64"
            arguments = [program, "-c", str(directory / "cfg")]
            user = "daemon"
        else:
            arguments = [program, "serve", "--listen", f"127.0.0.1:{self.port}", "--origin", f"root://127.0.0.1:{origin}",
                         "--store", str(store), "--budget", "1TiB"]
            user = None
        if name != "plain":
            store.mkdir(exist_ok=True)
            if not (store / "bench").exists():
                subprocess.run(["cp", "-a", "--sparse=never", str(ROOT / "entries/bench"), str(store)], check=True)
        if user:
            entry = pwd.getpwnam(user)
            subprocess.run(["chown", "-R", f"{entry.pw_uid}:{entry.pw_gid}", str(directory)], check=True)
        log = (directory / "log").open("w")
        options = {"user": user, "group": user} if user else {}
        self.process = subprocess.Popen(arguments, env=environment, stdout=log, stderr=log, cwd=directory, **options)
        await_port(self.port)

    def load(self, bench, arguments):
        before = cpu_s(self.process.pid)
        done = subprocess.run([bench, "load", f"127.0.0.1:{self.port}", *arguments], check=True, capture_output=True)
        report = json.loads(done.stdout)
        # Work that the load causes within a second counts as its cost.
        time.sleep(1.5)
        report["cpu_us"] = (cpu_s(self.process.pid) - before) * 1e6 / report["operations"]
        report["rate"] = report["operations"] / report["wall_s"]
        return report

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


READ = ["/large", "--file-size", "64MiB"]
ROWS = {
    "opens": ["--store-files", "FILES", "--operation", "open-stat-close", "--connections", "8"],
    "synchronous": [*READ, "--size", "4KiB"],
    "random-lengths": [*READ, "--size", "128KiB", "--order", "random-lengths", "--connections", "64"],
    "pgread-1m": [*READ, "--size", "1MiB", "--operation", "pgread", "--order", "sequential", "--connections", "8"],
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench")
    parser.add_argument("servers", nargs="+")
    parser.add_argument("--rows", default=",".join(ROWS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", default="3")
    parser.add_argument("--files", type=int, default=2000)
    parser.add_argument("--out")
    options = parser.parse_args()
    shutil.rmtree(ROOT, ignore_errors=True)
    (ROOT / "files").mkdir(parents=True)
    subprocess.run([options.bench, "make-store", str(ROOT / "entries"), "--files", str(options.files)], check=True)
    subprocess.run(f"cp -a {ROOT}/entries/bench {ROOT}/files && find {ROOT}/files -name '*.cinfo' -delete", shell=True, check=True)
    subprocess.run([options.bench, "make-file", str(ROOT / "files/large"), "64MiB"], check=True)
    programs = dict(server.split("=", 1) for server in options.servers)
    plain = Server("plain", programs.pop("plain"), 0)
    servers = [plain] + [Server(name, program, plain.port) for name, program in programs.items()]
    rows = []
    try:
        for row in options.rows.split(","):
            arguments = [str(options.files) if argument == "FILES" else argument for argument in ROWS[row]]
            # Everything is fetched and every record read before anything is measured.
            for server in servers:
                count = ["--operations", "4000"]
                server.load(options.bench, [*arguments, *count])
                if "large" in arguments[0]:
                    warm = [*READ, "--size", "1MiB", "--order", "sequential", "--operations", "128"]
                    server.load(options.bench, warm)
            time.sleep(5)
            for turn in range(options.rounds):
                for server in servers:
                    before = refaults()
                    report = server.load(options.bench, [*arguments, "--seconds", options.seconds])
                    report |= {"row": row, "server": server.name, "round": turn, "refaults": refaults() - before}
                    rows.append(report)
                    print(json.dumps(report), flush=True)
    finally:
        for server in servers[::-1]:
            server.stop()
        shutil.rmtree(ROOT, ignore_errors=True)
    if options.out:
        pathlib.Path(options.out).write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    for row in options.rows.split(","):
        for server in servers:
            mine = [report for report in rows if (report["row"], report["server"]) == (row, server.name)]
            middle = lambda field: sorted(report[field] for report in mine)[len(mine) // 2]
            print(f"{row:16} {server.name:10} cpu {middle('cpu_us'):8.1f} us  p50 {middle('p50_us'):8.1f} us  rate {middle('rate'):9.0f}/s")


if __name__ == "__main__":
    sys.exit(main())

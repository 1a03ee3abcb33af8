#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The demo: the main job, shown to a person. It fails when anything is not as promised."""

import json
import os
import sys
import time

import lab as ground
from agent import BINARY, CONTROL_PORT, Agent, identities
from lab import CONTROL_PLANE, EXTERNAL, GATEWAY, WORKER, Lab
from netns import wait_for
from specs import kube, spec, tunnel
from traffic import in_turn, scan

COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ
failures = []


def paint(code, text):
    return f"\x1b[{code}m{text}\x1b[0m" if COLOUR else text


def headline(text):
    print(f"\n{paint('1;36', '●')} {paint('1', text)}", flush=True)


def note(text):
    print(f"  {paint('2', text)}", flush=True)


def show(good, text):
    print(f"  {paint('32', '✔') if good else paint('1;31', '✘')} {text}", flush=True)
    if not good:
        failures.append(text)


def command(text):
    print(f"  {paint('33', '$')} {text}", flush=True)


def answers(lab, host, count=6):
    """Who answered `count` requests to the frontend from this host."""
    return [host.get(GATEWAY, 6443, "/", lab.trust)[1].strip() for _ in range(count)]


def served(lab, host, name, period=3):
    seen = answers(lab, host)
    show(in_turn(seen, period), f"{name}: {' '.join(seen)}")


def lay_out():
    headline("A cloudspace out of network namespaces")
    lab = Lab()
    note(f"gateway {GATEWAY} and {EXTERNAL}, three control-plane nodes (nginx, nginx, HAProxy with TLS), a worker "
         f"{WORKER},")
    note("a host outside, and a management cloudspace 192.168.10.0/24 behind a real WireGuard tunnel (MTU 1420)")
    show(lab.ext.ask(CONTROL_PLANE["cp1"], 7000)[0] == "cp1",
         "before the agent runs, the outside reaches the private network through the gateway")
    return lab


def run_agent(lab):
    headline("vgw-agent run, and a spec from the controller")
    agent = Agent(lab).start()
    wanted = spec(kube(), tunnels=[tunnel(lab.wg)])
    note("one frontend, kube-apiserver on 6443, over three backends checked at /readyz; the tunnel at MTU 1400")
    command("vgw-agent apply spec.json")
    done = agent.verb("apply", agent.file(wanted, "spec.json"))
    show(done.returncode == 0, "accepted; the plan that was carried out:")
    lines = (done.stdout + done.stderr).strip().splitlines()
    for line in lines[:8]:
        note(f"    {line}")
    if len(lines) > 8:
        note(f"    … and {len(lines) - 8} more lines")
    agent.settled()
    return agent


def frontends(lab):
    headline(f"{GATEWAY}:6443 is answered by three API servers in turn")
    served(lab, lab.cl, "from a worker              ")
    served(lab, lab.cp1, "from cp1, through itself   ")
    served(lab, lab.mg, "from the management cloud  ")
    show(lab.mg.get(GATEWAY, 6443, "/client", lab.trust)[1].strip() == ground.MANAGER,
         f"a client behind the tunnel keeps its address: the server saw {ground.MANAGER}")


def outside(lab):
    headline(f"From outside nothing answers, on {EXTERNAL} or on the private network")
    for address, ports in ((EXTERNAL, range(1, 10001)), (GATEWAY, (6443, CONTROL_PORT)),
                           (CONTROL_PLANE["cp1"], (6443, 7000))):
        found = scan(lab.ext, address, ports)
        shown = f"{len(ports)} ports" if len(ports) > 9 else "ports " + ", ".join(map(str, ports))
        show(found == [], f"scan of {address}, {shown}: {'nothing' if not found else found}")


def tunnel_mtu(lab, agent):
    headline("The tunnel is at its wanted MTU, and stays there")
    show(lab.gw.mtu(lab.wg) == 1400, f"{lab.wg} was at 1420 and is at {lab.gw.mtu(lab.wg)}")
    command(f"ip link set {lab.wg} mtu 1300")
    lab.gw.ip(f"link set {lab.wg} mtu 1300")
    begin = time.monotonic()
    wait_for(lambda: lab.gw.mtu(lab.wg) == 1400, what="the MTU is put back")
    drift = wait_for(lambda: [d for d in agent.status()["drift"] if lab.wg in d["object"]], what="the drift is recorded")
    show(True, f"put back after {drift[-1].get('repairedAfterMs', int((time.monotonic() - begin) * 1000))} ms, "
               "and the status says so")


def dead_backend(lab, agent):
    headline("An API server dies, and leaves the rotation")
    lab.api["cp2"].stop()
    begin = time.monotonic()
    row = agent.becomes(CONTROL_PLANE["cp2"], "Dead")
    show(row["check"]["code"] == "Refused",
         f"cp2 is {row['state']} ({row['check']['code']}) after {time.monotonic() - begin:.2f} s")
    served(lab, lab.cl, "from a worker              ", period=2)


def status(lab, agent):
    headline("What the operator sees")
    command("vgw-agent status")
    done = agent.host.run("script", "-qec", f"{BINARY} status --config {agent.config}", "/dev/null", check=False) \
        if COLOUR else agent.verb("status")
    print("\n".join(f"    {line.rstrip()}" for line in done.stdout.splitlines()), flush=True)
    show(done.returncode == 0 and "kube-apiserver" in done.stdout and "Dead" in done.stdout, "the table says the same")

    headline("What the controller sees, over mutually authenticated TLS")
    pki = identities()
    url = f"https://{GATEWAY}:{CONTROL_PORT}/v1/status"
    command(f"curl --cacert ca.crt --cert client.crt --key client.key {url}")
    done = lab.mg.run("curl", "-sS", "--max-time", 10, "--cacert", pki.ca, "--cert", pki.writer[0],
                      "--key", pki.writer[1], url, check=False)
    document = json.loads(done.stdout) if done.returncode == 0 else {}
    for line in json.dumps({k: document.get(k) for k in ("kind", "revision", "generation", "endpoint")}, indent=2).splitlines():
        note(f"    {line}")
    for condition in document.get("conditions", []):
        note(f"    {condition['type']:24}{condition['status']:9}{condition['reason']}")
    show(document.get("endpoint") == {"host": GATEWAY, "port": 6443}, "fetched from the management cloudspace")
    done = lab.mg.run("curl", "-sS", "--max-time", 10, "--cacert", pki.ca, url, check=False)
    show(done.returncode != 0, "without a client certificate there is no answer")


def end(lab, agent):
    headline("The agent goes: the rules stay until they are given up")
    agent.stop()
    show(set(answers(lab, lab.cl)) == {"cp1", "cp3"}, "agent stopped: the frontend answers as before")
    command("vgw-agent teardown")
    done = agent.verb("teardown")
    tables = lab.gw.run("nft", "list", "tables").stdout
    show(done.returncode == 0 and "vgw_agent" not in tables, "its table is gone")
    show(lab.gw.mtu(lab.wg) == 1420, f"{lab.wg} is at {lab.gw.mtu(lab.wg)} again")


def main():
    ground.on_signals()
    ground.sweep()
    begin = time.monotonic()
    lab = lay_out()
    try:
        agent = run_agent(lab)
        frontends(lab)
        outside(lab)
        tunnel_mtu(lab, agent)
        dead_backend(lab, agent)
        status(lab, agent)
        end(lab, agent)
    except Exception as error:  # shown to a person, and still a failure
        show(False, f"{type(error).__name__}: {error}")
        if Agent.made and Agent.made[-1].process:
            print(Agent.made[-1].log()[-2000:], file=sys.stderr)
    finally:
        lab.destroy()
    if failures:
        print(f"\n{paint('1;31', 'Not as promised:')} {len(failures)} of what was shown")
        return 1
    print(f"\n{paint('1;32', 'All as promised')}, in {time.monotonic() - begin:.0f} s. Nothing of it is left behind.")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

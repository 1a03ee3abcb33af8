# SPDX-License-Identifier: Apache-2.0
"""A ground per module; an agent per test that asks for one, or per module."""

import os
import signal

import pytest

import lab as ground
from agent import BINARY, Agent
from netns import run


def pytest_configure(config):
    ground.on_signals()
    ground.sweep()


def pytest_report_header():
    version = run(BINARY, "version", check=False).stdout.strip() if os.path.exists(BINARY) else "not built"
    return f"vgw-agent: {version}, kernel {os.uname().release}"


@pytest.fixture(scope="module")
def lab():
    with ground.Lab() as whole:
        yield whole


@pytest.fixture
def make_agent(lab):
    """A function that makes an agent; its rules and its process go with the test."""
    Agent.made.clear()

    def make(**settings):
        return Agent(lab, **settings)

    yield make
    for agent in Agent.made:
        clean(agent)
    lab.restore()


@pytest.fixture
def start_agent(make_agent):
    """The same, started with the given options."""
    return lambda *options, **settings: make_agent(**settings).start(*options)


@pytest.fixture
def agent(start_agent):
    return start_agent()


def clean(agent):
    """Leaves the host as the agent found it, whatever state the test left it in."""
    if agent.running():
        agent.process.send(signal.SIGCONT)
        try:
            agent.delete()
        except OSError:
            agent.kill()  # the test has failed already; the next one gets a host without an agent
        agent.stop()
    elif os.path.exists(os.path.join(agent.state, "applied.json")):
        agent.verb("teardown")
    agent.host.run("nft", "delete", "table", "inet", "vgw_agent", check=False)


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """A failed test shows the last lines of its agents' logs."""
    outcome = yield
    report = outcome.get_result()
    if not report.failed:
        return
    for agent in Agent.made[-2:]:
        if agent.process is not None and os.path.exists(agent.process.output):
            report.sections.append((f"log of {os.path.basename(agent.directory)}",
                                    "\n".join(agent.log().splitlines()[-60:])))

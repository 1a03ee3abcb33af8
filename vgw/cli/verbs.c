/* SPDX-License-Identifier: Apache-2.0 */
/* What the program can be told, in the order of the contract. */
#include "vgw/cli/cli.h"

/* clang-format off */
#define TARGET_SYNOPSIS "[--config FILE | --socket PATH |\n" \
	"           --connect HOST:PORT --ca FILE --cert FILE --key FILE]"
#define TARGET_HELP \
	"  --config FILE        the agent's settings, for the path of its socket\n" \
	"                       (default /etc/vgw-agent/agent.json)\n" \
	"  --socket PATH        the agent's socket\n" \
	"  --connect HOST:PORT  the control channel of an agent elsewhere; with it\n" \
	"  --ca FILE            the authority that signed the agent's certificate\n" \
	"  --cert FILE          the client certificate to show\n" \
	"  --key FILE           its key\n"

const struct cli_verb cli_verbs[] = {
	{
		"run", "run [--config FILE] [--spec FILE]",
		"the service: applies, checks, repairs, reports",
		"Applies the stored spec, listens, checks, and keeps the host that way.\n"
		"A stored spec that is refused does not stop the agent: the condition\n"
		"SpecAccepted says why.\n\n"
		"  --config FILE  the host's settings (default /etc/vgw-agent/agent.json)\n"
		"  --spec FILE    the spec to start from when none is stored yet\n",
		agent_run,
	},
	{
		"check", "check FILE",
		"validates a spec, without a host and without privileges",
		"Prints \"ok\" and what the spec asks for, or why an agent would refuse it\n"
		"(status 3). Assumes the control port 9443/TCP and the probe port 9444/UDP.\n"
		"\"-\" reads standard input. Warnings go to standard error.\n",
		cli_check,
	},
	{
		"plan", "plan [--config FILE] FILE",
		"prints what a spec would change on this host",
		"One change per line, with the verdicts now in force, or \"no changes\".\n"
		"Changes nothing.\n\n"
		"  --config FILE  the host's settings (default /etc/vgw-agent/agent.json)\n",
		agent_plan,
	},
	{
		"apply", "apply FILE [--dry-run | --confirm DURATION]\n"
		"           " TARGET_SYNOPSIS,
		"sends a spec to a running agent",
		"Prints the plan that was carried out, one change per line, or \"no changes\".\n"
		"\"-\" reads standard input. A spec that is refused touches nothing (status 3).\n\n"
		"  --dry-run            only plan\n"
		"  --confirm DURATION   return to the spec before by itself, unless\n"
		"                       'vgw-agent confirm' comes within this time (\"30s\")\n"
		TARGET_HELP,
		cli_apply,
	},
	{
		"confirm", "confirm " TARGET_SYNOPSIS,
		"keeps what 'apply --confirm' has applied",
		"Without it the agent returns to the spec before when the time is over.\n\n"
		TARGET_HELP,
		cli_confirm,
	},
	{
		"status", "status [--json] [--watch]\n           " TARGET_SYNOPSIS,
		"shows what a running agent reports",
		"A table, in colour on a terminal (unless NO_COLOR is set).\n\n"
		"  --json               the status document as it is\n"
		"  --watch              a live view until Ctrl-C; without a terminal, one more\n"
		"                       table (or document) for each change\n"
		TARGET_HELP,
		cli_status,
	},
	{
		"pmtu", "pmtu ADDRESS [--max N] [--json]",
		"measures the path MTU to an address",
		"The exact value by ICMP echo, and whether path MTU discovery works there\n"
		"(Working) or larger packets vanish in silence (BlackHole); then what is left\n"
		"for pods in VXLAN, Geneve, IP-in-IP and WireGuard over that address's family.\n"
		"ADDRESS may be a name. Needs no running agent, but CAP_NET_RAW or a group that\n"
		"net.ipv4.ping_group_range allows.\n\n"
		"  --max N  try nothing larger, in bytes of the whole IP packet\n"
		"  --json   {address, mtu, pmtud, method, elapsedMs, maxPodMTU}\n",
		cli_pmtu,
	},
	{
		"teardown", "teardown " TARGET_SYNOPSIS,
		"removes what the agent has configured on this host",
		"Exactly what is recorded goes, and replaced values come back; nothing else is\n"
		"touched. Done by the agent where one answers; where none answers on the socket,\n"
		"here, and then it needs the agent's privileges.\n\n"
		TARGET_HELP,
		agent_teardown,
	},
	{
		"pki", "pki DIR [--name N] [--address A]...",
		"makes a CA, a server and a client certificate",
		"For a trial or a small site: ca, server and client, each .crt and .key (ECDSA\n"
		"P-256). The client's common name is \"controller\". An authority that is there\n"
		"already is used again. Lists the files.\n\n"
		"  --name N     a DNS name of the server\n"
		"  --address A  an address of the server; may be given many times\n",
		cli_pki,
	},
	{
		"version", "version",
		"prints the versions of the program and its libraries",
		"The libraries' versions are those that are loaded now.\n",
		cli_version,
	},
	{
		"help", "help [VERB]",
		"explains the verbs, or one of them",
		"Without VERB, lists them.\n",
		cli_help,
	},
	{NULL, NULL, NULL, NULL, NULL},
};
/* clang-format on */

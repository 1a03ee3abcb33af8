/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a status document: golden texts, and what foreign text may not do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vgw/cli/status_table.h"
#include "vgw/cli/text.h"

#define TIMES "'time': '2026-11-30T09:59:59Z'"

/* JSON is written here with ' for ", so that it can be read. */
static const char whole[] =
	"{'apiVersion': 'vgw-agent/v1', 'kind': 'GatewayStatus', 'revision': 1796032800118, 'bootId': 'b',"
	" 'time': '2026-11-30T10:00:00Z', 'ageMs': 12, 'agent': {'version': '0.1.0', 'kernel': '6.12.0'},"
	" 'generation': {'accepted': 4, 'applied': 3}, 'endpoint': {'host': '192.168.150.1', 'port': 6443},"
	" 'conditions': ["
	"  {'type': 'Ready', 'status': 'False', 'reason': 'Degraded', 'message': 'one backend is dead',"
	"   'lastTransitionTime': '2026-11-30T09:59:30Z'},"
	"  {'type': 'SpecAccepted', 'status': 'True', 'reason': 'Accepted', 'message': '',"
	"   'lastTransitionTime': '2026-11-29T08:00:00Z'},"
	"  {'type': 'PodMTUFits', 'status': 'Unknown', 'reason': 'NotMeasured', 'message': 'no answer yet',"
	"   'lastTransitionTime': '2026-11-30T09:54:55Z'}],"
	" 'frontends': ["
	"  {'name': 'kube-apiserver', 'address': '192.168.150.1', 'port': 6443, 'protocol': 'TCP',"
	"   'state': 'Degraded', 'healthy': 1, 'total': 3, 'backends': ["
	"    {'address': '192.168.150.11', 'port': 6443, 'state': 'Up', 'since': '2026-11-30T09:55:00Z',"
	"     'check': {'stage': 'http', 'code': 'OK', 'detail': '200', 'latencyMs': 3.14, 'streak': "
	"41, " TIMES "},"
	"     'certificate': {'notAfter': '2027-11-30T10:00:00Z', 'hasGatewayAddress': true, 'verified': "
	"true},"
	"     'flows': 12, 'flowsReaped': 0},"
	"    {'address': '192.168.150.12', 'port': 6443, 'state': 'Draining', 'since': "
	"'2026-11-30T06:55:00.5Z',"
	"     'check': {'stage': 'http', 'code': 'HTTPStatus', 'detail': '500', 'latencyMs': 1203.1, " TIMES
	"},"
	"     'certificate': {'notAfter': '2026-12-05T10:00:00Z', 'hasGatewayAddress': false, 'verified': "
	"false},"
	"     'flows': 1, 'flowsReaped': 0},"
	"    {'address': '192.168.150.13', 'port': 6443, 'state': 'Dead', 'since': '2026-11-30T09:59:20Z',"
	"     'check': {'stage': 'connect', 'code': 'Refused', 'detail': '', 'streak': 4, " TIMES "},"
	"     'certificate': {'notAfter': '2026-11-29T10:00:00Z', 'hasGatewayAddress': true},"
	"     'flows': 0, 'flowsReaped': 17}]},"
	"  {'name': 'default/web', 'address': 'fd00:150::1', 'port': 443, 'protocol': 'TCP', 'state': "
	"'NoBackends',"
	"   'healthy': 0, 'total': 0, 'backends': []}],"
	" 'tunnels': ["
	"  {'name': 'mgmt', 'interface': 'wg0', 'state': 'Up',"
	"   'mtu': {'state': 'InSync', 'wanted': 1400, 'actual': 1400, 'original': 1420, 'repairs': 0},"
	"   'path': {'mtu': 1400, 'reverseMtu': 1400, 'pmtud': 'Working'}, 'maxPodMTU': 1350,"
	"   'peer': {'address': '192.168.10.1', 'rttMs': 1.9, 'lossPercent': 0, 'lastHeard': "
	"'2026-11-30T09:59:59Z'}},"
	"  {'name': 'ipsec', 'interface': '', 'state': 'BlackHole', 'mtu': {'state': 'Pending', 'wanted': "
	"1300}}],"
	" 'managementConnections': [{'cloudspaceId': 'cs-7f2a', 'tunnel': 'mgmt', 'outbound': 'True', "
	"'inbound': 'False'}],"
	" 'probes': [{'name': 'remote-api', 'state': 'Up', 'check': {'stage': 'http', 'code': 'OK', "
	"'detail': '200',"
	"   'latencyMs': 25.0, " TIMES "}}],"
	" 'certificate': {'notAfter': '2027-09-26T10:00:00Z', 'daysLeft': 300},"
	" 'drift': [{'time': '2026-11-30T09:00:00Z', 'object': 'table inet vgw_agent', 'by': 'pid 812 nft',"
	"   'repairedAfterMs': 40}],"
	" 'warnings': [{'code': 'ForwardDrop', 'message': 'another table drops', 'fix': 'accept it there'},"
	"   {'code': 'ClockSkew', 'message': '3 s ahead'}]}";

static const char sane[] =
	"{'cluster': 'private-demo', 'revision': 7, 'conditions': [{'type': 'Ready', 'status': 'True'}]}";

/* Everything that a name or a message could try. */
static const char hostile[] =
	"{'time': '2026-11-30T10:00:00Z', 'frontends': [{'name': '\x1b[2J\\u001b]0;pwned\\u0007', 'state': "
	"'Up\\nReady',"
	"  'address': '\xc2\x9b"
	"1m', 'backends': [{'address': 'a\\u202eb\\u0000c', 'since': 'never\\t'}]}],"
	" 'drift': [{'time': 'x', 'object': 'table', 'by': 'pid 1 \\u007f\\u009b\\u2066\\ufeff'}],"
	" 'warnings': [{'code': 'A\\r\\nB', 'message': '%s%n', 'fix': '\\u2028'}]}";

static const char wide[] = "{'warnings': [{'code': 'CodeOne', 'message': 'one'}, {'code': "
			   "'\xe6\xbc\xa2\xe5\xad\x97', 'message': 'two'},"
			   " {'code': 'e\xcc\x81t\xc3\xa9', 'message': 'three'}, {'code': 'Code', 'message': "
			   "'\xf0\x9f\x94\xa5\xf0\x9f\x94\xa5'}]}";

/* Other types than the contract's, and other cases. */
static const char mistyped[] =
	"{'Cluster': 'no', 'revision': '12', 'time': 5, 'ageMs': null, 'agent': [], 'generation': 3,"
	" 'endpoint': {'host': 4, 'port': 'x'}, 'conditions': {'type': 'no'}, 'frontends': [1, null, 'x', "
	"[]],"
	" 'tunnels': 'none', 'probes': [{'name': 'p', 'check': 7}], 'warnings': null, 'drift': [[]]}";

static const char odd[] =
	"{'time': '2026-11-30T10:00:00+01:00', 'endpoint': {'host': 'fd00::1', 'port': 6443}, 'generation': "
	"{'applied': 2},"
	" 'conditions': [{'type': 'Ready', 'status': 'Maybe', 'lastTransitionTime': '2026-11-30T09:00:00Z'}],"
	" 'frontends': [{'name': 'mine', 'state': 'Ignored', 'port': 80, 'protocol': 'UDP', 'backends': ["
	"   {'address': 'fd00::2', 'port': 53, 'state': 'Unknown', 'check': {'stage': 'none', 'code': 'OK'},"
	"    'certificate': {'notAfter': '2026-12-05T10:00:00Z'}}]}]}";

static const char states[] = "{'tunnels': [{'name': 'a', 'state': 'Absent', 'mtu': {'state': 'Contested'}},"
			     " {'name': 'b', 'state': 'OneWayTx', 'mtu': {'state': 'OutOfRange'}, 'path': "
			     "{'pmtud': 'BlackHole'}}]}";

struct golden {
	const char *name;
	const char *json;
	unsigned width;
	bool colour;
	const char *table;
};

static const struct golden goldens[] = {
	{"everything", whole, 0, false,
	 "192.168.150.1:6443  vgw-agent 0.1.0  revision 1796032800118  generation 4, applied 3  age 12ms  "
	 "certificate 300d  2026-11-30T10:00:00Z\n"
	 "\n"
	 "CONDITIONS\n"
	 "  TYPE          STATUS   REASON       SINCE  MESSAGE\n"
	 "  Ready         False    Degraded       30s  one backend is dead\n"
	 "  SpecAccepted  True     Accepted       26h\n"
	 "  PodMTUFits    Unknown  NotMeasured  5m05s  no answer yet\n"
	 "\n"
	 "FRONTENDS\n"
	 "  FRONTEND/BACKEND                       STATE       CHECK                LATENCY  SINCE  "
	 "CERTIFICATE        FLOWS  REAPED\n"
	 "  kube-apiserver 192.168.150.1:6443/TCP  Degraded    1 of 3 healthy\n"
	 "    192.168.150.11:6443                  Up          http OK 200            3.1ms  5m00s  365d     "
	 "             12       0\n"
	 "    192.168.150.12:6443                  Draining    http HTTPStatus 500    1.20s     3h  5d no "
	 "gateway SAN      1       0\n"
	 "    192.168.150.13:6443                  Dead        connect Refused                 40s  expired  "
	 "              0      17\n"
	 "  default/web [fd00:150::1]:443/TCP      NoBackends  0 of 0 healthy\n"
	 "\n"
	 "TUNNELS\n"
	 "  TUNNEL  INTERFACE  STATE      MTU      WANTED  ACTUAL  ORIGINAL  PATH  PMTUD    MAXPODMTU  PEER  "
	 "          RTT  LOSS  HEARD\n"
	 "  mgmt    wg0        Up         InSync     1400    1400      1420  1400  Working       1350  "
	 "192.168.10.1  1.9ms    0%     1s\n"
	 "  ipsec              BlackHole  Pending    1300\n"
	 "\n"
	 "MANAGEMENT CONNECTIONS\n"
	 "  CLOUDSPACE  TUNNEL  OUTBOUND  INBOUND\n"
	 "  cs-7f2a     mgmt    True      False\n"
	 "\n"
	 "PROBES\n"
	 "  PROBE       STATE  CHECK        LATENCY  CHECKED\n"
	 "  remote-api  Up     http OK 200     25ms       1s\n"
	 "\n"
	 "DRIFT\n"
	 "  AGO  OBJECT                BY           REPAIRED AFTER\n"
	 "  60m  table inet vgw_agent  pid 812 nft            40ms\n"
	 "\n"
	 "WARNINGS\n"
	 "  WARNING      MESSAGE\n"
	 "  ForwardDrop  another table drops\n"
	 "               fix: accept it there\n"
	 "  ClockSkew    3 s ahead\n"},
	{"cut to a terminal of 60 columns, in colour", whole, 60, true,
	 "\x1b[1m192.168.150.1:6443  vgw-agent 0.1.0  revision 1796032800118\x1b[0m\x1b[2m>\x1b[0m\n"
	 "\n"
	 "\x1b[1mCONDITIONS\x1b[0m\n"
	 "  \x1b[2mTYPE\x1b[0m          \x1b[2mSTATUS\x1b[0m   \x1b[2mREASON\x1b[0m       "
	 "\x1b[2mSINCE\x1b[0m  \x1b[2mMESSAGE\x1b[0m\n"
	 "  Ready         \x1b[31mFalse\x1b[0m    Degraded       30s  one backend is\x1b[2m>\x1b[0m\n"
	 "  SpecAccepted  \x1b[32mTrue\x1b[0m     Accepted       26h\n"
	 "  PodMTUFits    \x1b[33mUnknown\x1b[0m  NotMeasured  5m05s  no answer yet\n"
	 "\n"
	 "\x1b[1mFRONTENDS\x1b[0m\n"
	 "  \x1b[2mFRONTEND/BACKEND\x1b[0m                \x1b[2mSTATE\x1b[0m       \x1b[2mCHECK\x1b[0m      "
	 "  \x1b[2m>\x1b[0m\n"
	 "  \x1b[1mkube-apiserver 192.168.150.1:\x1b[0m\x1b[2m>\x1b[0m  \x1b[33mDegraded\x1b[0m    1 of 3 "
	 "healthy\n"
	 "    192.168.150.11:6443           \x1b[32mUp\x1b[0m          \x1b[32mhttp OK 200\x1b[0m  "
	 "\x1b[2m>\x1b[0m\n"
	 "    192.168.150.12:6443           \x1b[33mDraining\x1b[0m    \x1b[33mhttp "
	 "HTTPStat\x1b[0m\x1b[2m>\x1b[0m\n"
	 "    192.168.150.13:6443           \x1b[31mDead\x1b[0m        \x1b[31mconnect "
	 "Refus\x1b[0m\x1b[2m>\x1b[0m\n"
	 "  \x1b[1mdefault/web [fd00:150::1]:443\x1b[0m\x1b[2m>\x1b[0m  \x1b[31mNoBackends\x1b[0m  0 of 0 "
	 "healthy\n"
	 "\n"
	 "\x1b[1mTUNNELS\x1b[0m\n"
	 "  \x1b[2mTUNNEL\x1b[0m  \x1b[2mINTERFACE\x1b[0m  \x1b[2mSTATE\x1b[0m      \x1b[2mMTU\x1b[0m      "
	 "\x1b[2mWANTED\x1b[0m  \x1b[2mACTUAL\x1b[0m  \x1b[2mOR\x1b[0m\x1b[2m>\x1b[0m\n"
	 "  \x1b[1mmgmt\x1b[0m    wg0        \x1b[32mUp\x1b[0m         \x1b[32mInSync\x1b[0m     1400    "
	 "1400    \x1b[2m>\x1b[0m\n"
	 "  \x1b[1mipsec\x1b[0m              \x1b[31mBlackHole\x1b[0m  \x1b[33mPending\x1b[0m    1300\n"
	 "\n"
	 "\x1b[1mMANAGEMENT CONNECTIONS\x1b[0m\n"
	 "  \x1b[2mCLOUDSPACE\x1b[0m  \x1b[2mTUNNEL\x1b[0m  \x1b[2mOUTBOUND\x1b[0m  \x1b[2mINBOUND\x1b[0m\n"
	 "  cs-7f2a     mgmt    \x1b[32mTrue\x1b[0m      \x1b[31mFalse\x1b[0m\n"
	 "\n"
	 "\x1b[1mPROBES\x1b[0m\n"
	 "  \x1b[2mPROBE\x1b[0m       \x1b[2mSTATE\x1b[0m  \x1b[2mCHECK\x1b[0m        \x1b[2mLATENCY\x1b[0m  "
	 "\x1b[2mCHECKED\x1b[0m\n"
	 "  \x1b[1mremote-api\x1b[0m  \x1b[32mUp\x1b[0m     \x1b[32mhttp OK 200\x1b[0m     25ms       1s\n"
	 "\n"
	 "\x1b[1mDRIFT\x1b[0m\n"
	 "  \x1b[2mAGO\x1b[0m  \x1b[2mOBJECT\x1b[0m                \x1b[2mBY\x1b[0m           "
	 "\x1b[2mREPAIRED AFTER\x1b[0m\n"
	 "  60m  table inet vgw_agent  pid 812 nft            40ms\n"
	 "\n"
	 "\x1b[1mWARNINGS\x1b[0m\n"
	 "  \x1b[2mWARNING\x1b[0m      \x1b[2mMESSAGE\x1b[0m\n"
	 "  \x1b[33mForwardDrop\x1b[0m  another table drops\n"
	 "               fix: accept it there\n"
	 "  \x1b[33mClockSkew\x1b[0m    3 s ahead\n"},
	{"a narrow one", sane, 10, false,
	 "private-d>\n"
	 "\n"
	 "CONDITIONS\n"
	 "  TYPE   >\n"
	 "  Ready  >\n"},
	{"exactly as wide as its longest line", sane, 24, false,
	 "private-demo  revision 7\n"
	 "\n"
	 "CONDITIONS\n"
	 "  TYPE   STATUS\n"
	 "  Ready  True\n"},
	{"one column", sane, 1, false,
	 ">\n"
	 "\n"
	 ">\n"
	 ">\n"
	 ">\n"},
	{"steering a terminal", hostile, 0, false,
	 "2026-11-30T10:00:00Z\n"
	 "\n"
	 "FRONTENDS\n"
	 "  FRONTEND/BACKEND    STATE      SINCE\n"
	 "  ?[2J?]0;pwned? ?1m  Up Ready\n"
	 "    a?b                         never \n"
	 "\n"
	 "DRIFT\n"
	 "  AGO  OBJECT  BY\n"
	 "    x  table   pid 1 ????\n"
	 "\n"
	 "WARNINGS\n"
	 "  WARNING  MESSAGE\n"
	 "  A  B     %s%n\n"
	 "           fix: ?\n"},
	{"the same in colour: our own sequences alone", hostile, 0, true,
	 "\x1b[1m2026-11-30T10:00:00Z\x1b[0m\n"
	 "\n"
	 "\x1b[1mFRONTENDS\x1b[0m\n"
	 "  \x1b[2mFRONTEND/BACKEND\x1b[0m    \x1b[2mSTATE\x1b[0m      \x1b[2mSINCE\x1b[0m\n"
	 "  \x1b[1m?[2J?]0;pwned? ?1m\x1b[0m  Up Ready\n"
	 "    a?b                         never \n"
	 "\n"
	 "\x1b[1mDRIFT\x1b[0m\n"
	 "  \x1b[2mAGO\x1b[0m  \x1b[2mOBJECT\x1b[0m  \x1b[2mBY\x1b[0m\n"
	 "    x  table   pid 1 ????\n"
	 "\n"
	 "\x1b[1mWARNINGS\x1b[0m\n"
	 "  \x1b[2mWARNING\x1b[0m  \x1b[2mMESSAGE\x1b[0m\n"
	 "  \x1b[33mA  B\x1b[0m     %s%n\n"
	 "           fix: ?\n"},
	{"wide and combining characters", wide, 0, false,
	 "WARNINGS\n"
	 "  WARNING  MESSAGE\n"
	 "  CodeOne  one\n"
	 "  \xe6\xbc\xa2\xe5\xad\x97     two\n"
	 "  e\xcc\x81t\xc3\xa9      three\n"
	 "  Code     \xf0\x9f\x94\xa5\xf0\x9f\x94\xa5\n"},
	{"wide characters, cut", wide, 13, false,
	 "WARNINGS\n"
	 "  WARNING  M>\n"
	 "  CodeOne  o>\n"
	 "  \xe6\xbc\xa2\xe5\xad\x97     t>\n"
	 "  e\xcc\x81t\xc3\xa9      t>\n"
	 "  Code     >\n"},
	{"other types", mistyped, 0, false,
	 "PROBES\n"
	 "  PROBE\n"
	 "  p\n"},
	{"no time that is one, unknown words, IPv6", odd, 0, false,
	 "[fd00::1]:6443  applied generation 2  2026-11-30T10:00:00+01:00\n"
	 "\n"
	 "CONDITIONS\n"
	 "  TYPE   STATUS                 SINCE\n"
	 "  Ready  Maybe   2026-11-30T09:00:00Z\n"
	 "\n"
	 "FRONTENDS\n"
	 "  FRONTEND/BACKEND  STATE    CHECK    CERTIFICATE\n"
	 "  mine :80/UDP      Ignored\n"
	 "    [fd00::2]:53    Unknown  none OK  2026-12-05T10:00:00Z\n"},
	{"colours of tunnels", states, 0, true,
	 "\x1b[1mTUNNELS\x1b[0m\n"
	 "  \x1b[2mTUNNEL\x1b[0m  \x1b[2mSTATE\x1b[0m     \x1b[2mMTU\x1b[0m         \x1b[2mPMTUD\x1b[0m\n"
	 "  \x1b[1ma\x1b[0m       \x1b[31mAbsent\x1b[0m    \x1b[31mContested\x1b[0m\n"
	 "  \x1b[1mb\x1b[0m       \x1b[33mOneWayTx\x1b[0m  \x1b[31mOutOfRange\x1b[0m  "
	 "\x1b[31mBlackHole\x1b[0m\n"},
};

/* Malloc'ed. */
static char *quoted(const char *json)
{
	char *out = strdup(json);

	assert_non_null(out);
	for (char *p = out; *p; p++)
		if (*p == '\'')
			*p = '"';
	return out;
}

static void render(const char *json, bool colour, unsigned width, struct buf *out)
{
	char *text = quoted(json);

	status_table_render(text, strlen(text), colour, width, out);
	assert_false(out->failed);
	free(text);
}

static void test_goldens(void **state)
{
	for (size_t i = 0; i < sizeof(goldens) / sizeof(goldens[0]); i++) {
		struct buf out = {0};

		render(goldens[i].json, goldens[i].colour, goldens[i].width, &out);
		/* fail_msg() would cut it. */
		if (strcmp(buf_str(&out), goldens[i].table) != 0) {
			fprintf(stderr, "%s", buf_str(&out));
			fail_msg("%s", goldens[i].name);
		}
		buf_free(&out);
	}
}

/* Columns of a line, our own colours left out; fails at any other control character. */
static size_t columns(const char *line, size_t len, bool colour)
{
	struct buf plain = {0};
	size_t width;

	for (size_t i = 0; i < len; i++) {
		if (colour && line[i] == '\x1b') {
			size_t end = i + 1 + strcspn(line + i + 1, "m");

			assert_int_equal(line[i + 1], '[');
			assert_int_equal(strspn(line + i + 2, "0123456789"), end - i - 2);
			i = end;
			continue;
		}
		assert_true((unsigned char)line[i] >= ' ' && line[i] != 0x7f);
		buf_append(&plain, line + i, 1);
	}
	width = text_width(buf_str(&plain));
	buf_free(&plain);
	return width;
}

static void test_no_line_is_wider_than_the_terminal(void **state)
{
	static const char *const documents[] = {whole, hostile, wide, mistyped};

	for (unsigned i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
		for (unsigned width = 1; width < 170; width++) {
			struct buf out = {0};
			const char *line, *end;

			render(documents[i], width % 2, width, &out);
			for (line = buf_str(&out); *line; line = end + 1) {
				end = strchr(line, '\n');
				assert_non_null(end);
				assert_in_range(columns(line, (size_t)(end - line), width % 2), 0, width);
			}
			buf_free(&out);
		}
	}
}

static void test_no_document(void **state)
{
	static const char *const documents[] = {"", "null", "[]", "17", "{", "{'a': 1", "<html>"};
	char *text = quoted(whole);

	for (unsigned i = 0; i < sizeof(documents) / sizeof(documents[0]); i++) {
		struct buf out = {0};

		render(documents[i], false, 0, &out);
		assert_string_equal(buf_str(&out), "the agent's answer is not a status document\n");
		buf_free(&out);
	}
	/* Whatever was cut on its way; the length counts, not a NUL behind it. */
	for (size_t len = 0; len < strlen(text); len++) {
		struct buf out = {0};

		status_table_render(text, len, false, 80, &out);
		assert_string_equal(buf_str(&out), "the agent's answer is not a status document\n");
		buf_free(&out);
	}
	free(text);
}

static void test_clean_text(void **state)
{
	static const struct {
		const char *raw, *clean;
		size_t width;
	} cases[] = {
		{"", "", 0},
		{"plain", "plain", 5},
		{"a\tb\r\nc", "a b  c", 6},
		{"\x01\x1b\x7f", "???", 3},
		{"\xc2\x9b", "?", 1},		 /* U+009B, an escape sequence's start in one character */
		{"\xe2\x80\xae", "?", 1},	 /* U+202E turns what follows around */
		{"\xc0\xaf", "??", 2},		 /* overlong */
		{"\xed\xa0\x80", "???", 3},	 /* a surrogate */
		{"\xf4\x90\x80\x80", "????", 4}, /* beyond U+10FFFF */
		{"\xe2\x82", "??", 2},		 /* cut */
		{"\xff\x80", "??", 2},
		{"\xc3\xa9", "\xc3\xa9", 1},	     /* e with acute */
		{"e\xcc\x81", "e\xcc\x81", 1},	     /* the same of two characters */
		{"\xe6\xbc\xa2", "\xe6\xbc\xa2", 2}, /* Han */
		{"\xf0\x9f\x94\xa5", "\xf0\x9f\x94\xa5", 2},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf out = {0};

		text_clean(&out, cases[i].raw);
		assert_string_equal(buf_str(&out), cases[i].clean);
		assert_int_equal(text_width(buf_str(&out)), cases[i].width);
		buf_free(&out);
	}
}

static void test_fitting_text(void **state)
{
	static const struct {
		const char *text;
		size_t columns, bytes, width;
	} cases[] = {
		{"abc", 0, 0, 0},	 {"abc", 2, 2, 2},
		{"abc", 9, 3, 3},	 {"\xe6\xbc\xa2\xe6\xbc\xa2", 3, 3, 2}, /* no half of a wide one */
		{"e\xcc\x81x", 1, 3, 1}, /* an accent stays with its letter */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t width;

		assert_int_equal(text_fit(cases[i].text, cases[i].columns, &width), cases[i].bytes);
		assert_int_equal(width, cases[i].width);
	}
}

static void test_ages(void **state)
{
	static const struct {
		const char *then, *age;
	} cases[] = {
		{"2026-11-30T10:00:00Z", "0s"},
		{"2026-11-30T10:00:05Z", "0s"}, /* their clock is ahead */
		{"2026-11-30T09:58:01Z", "119s"},
		{"2026-11-30T09:58:00Z", "2m00s"},
		{"2026-11-30T09:50:01Z", "9m59s"},
		{"2026-11-30T09:50:00Z", "10m"},
		{"2026-11-30T07:00:01Z", "179m"},
		{"2026-11-30T07:00:00Z", "3h"},
		{"2026-11-28T10:00:01Z", "47h"},
		{"2026-11-28T10:00:00Z", "2d"},
		{"2024-02-29T10:00:00Z", "1005d"},
		{"2026-11-30T09:59:59.999999Z", "1s"},
		{"2026-11-30", "2026-11-30"},
		{"2026-11-30T09:59:59", "2026-11-30T09:59:59"},
		{"", ""},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[128];
		struct buf out = {0};
		char expected[256];

		snprintf(text, sizeof(text),
			 "{'time': '2026-11-30T10:00:00Z', 'drift': [{'time': '%s', 'object': 'o'}]}",
			 cases[i].then);
		snprintf(expected, sizeof(expected), "%s  o\n", cases[i].age);
		render(text, false, 0, &out);
		if (!strstr(buf_str(&out), expected))
			fail_msg("%s: not %s in %s", cases[i].then, cases[i].age, buf_str(&out));
		buf_free(&out);
	}
}

/* Ten thousand frontends are a document that the contract allows. */
static void test_a_large_document(void **state)
{
	struct buf json = {0}, out = {0};

	buf_puts(&json, "{\"frontends\": [");
	for (int i = 0; i < 10000; i++)
		buf_printf(&json,
			   "%s{\"name\": \"f%d\", \"backends\": [{\"address\": \"10.0.0.1\", \"port\": %d}]}",
			   i ? "," : "", i, i + 1);
	buf_puts(&json, "]}");
	status_table_render(buf_str(&json), json.len, true, 80, &out);
	assert_false(out.failed);
	assert_non_null(strstr(buf_str(&out), "f9999"));
	buf_free(&json);
	buf_free(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_goldens),
		cmocka_unit_test(test_no_line_is_wider_than_the_terminal),
		cmocka_unit_test(test_no_document),
		cmocka_unit_test(test_clean_text),
		cmocka_unit_test(test_fitting_text),
		cmocka_unit_test(test_ages),
		cmocka_unit_test(test_a_large_document),
	};

	return cmocka_run_group_tests_name("status table", tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* agent.json: the contract's example, its defaults, and every refusal with its pointer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "directory.h"
#include "spec_text.h"
#include "vgw/config.h"

static struct directory dir;

static int load(const char *text, struct config **out, struct vgw_err *err)
{
	char path[256], *json = spec_text(text);
	int rc;

	directory_write(&dir, "agent.json", json, strlen(json));
	free(json);
	memset(err, 0, sizeof(*err));
	rc = config_load(directory_file(&dir, "agent.json", path), out, err);
	assert_true(rc == 0 || !*out);
	return rc;
}

static struct config *config_of(const char *text)
{
	struct config *c;
	struct vgw_err err;

	if (load(text, &c, &err) < 0)
		fail_msg("%s: %s at \"%s\" for %s", err.reason, err.text, err.where, text);
	return c;
}

static void assert_defaults(const struct config *c)
{
	assert_string_equal(c->private_if, "");
	assert_string_equal(c->external_if, "");
	assert_int_equal(c->n_trusted, 0);
	assert_int_equal(c->n_listen, 0);
	assert_false(c->has_control);
	assert_int_equal(c->n_clients, 0);
	assert_string_equal(c->socket, "/run/vgw-agent/control.sock");
	assert_string_equal(c->state_directory, "/var/lib/vgw-agent");
	assert_int_equal(c->probe_port, 9444);
	assert_true(c->protect);
	assert_int_equal(c->log_level, LOG_LEVEL_INFO);
}

static void defaults(void **state)
{
	static const char all[] = "{'interfaces':{'trusted':[]},'control':{'listen':[],'clients':[]},"
				  "'protect':'auto','logLevel':'info','probePort':9444}";
	static const char *const texts[] = {"{}", "{'interfaces':{},'control':{}}", all};

	(void)state;
	assert_string_equal(CONFIG_DEFAULT_PATH, "/etc/vgw-agent/agent.json");
	assert_int_equal(CONFIG_CONTROL_PORT, 9443);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct config *c = config_of(texts[i]);

		assert_defaults(c);
		config_free(c);
	}
	config_free(NULL);
}

static void example(void **state)
{
	static const char text[] =
		"{'interfaces':{'private':'eth1','external':'eth0','trusted':['eth9','wg7']},"
		"'control':{'listen':['192.168.150.1:9443','[fd00:150::1]:9443'],"
		"'certificate':'/etc/vgw-agent/tls/server.crt','key':'/etc/vgw-agent/tls/server.key',"
		"'clientCA':['/etc/vgw-agent/tls/ca.crt'],"
		"'clients':[{'name':'controller','role':'writer'},{'name':'prometheus','role':'reader'}]},"
		"'socket':'/run/vgw-agent/control.sock','stateDirectory':'/var/lib/vgw-agent',"
		"'probePort':9000,'protect':'off','logLevel':'debug'}";
	char endpoint[IP_ENDPOINT_STRLEN];
	struct config *c = config_of(text);

	(void)state;
	assert_string_equal(c->private_if, "eth1");
	assert_string_equal(c->external_if, "eth0");
	assert_int_equal(c->n_trusted, 2);
	assert_string_equal(c->trusted[0], "eth9");
	assert_string_equal(c->trusted[1], "wg7");
	assert_int_equal(c->n_listen, 2);
	assert_string_equal(ip_endpoint_print(&c->listen[0], endpoint), "192.168.150.1:9443");
	assert_string_equal(ip_endpoint_print(&c->listen[1], endpoint), "[fd00:150::1]:9443");
	assert_true(c->has_control);
	assert_string_equal(c->certificate, "/etc/vgw-agent/tls/server.crt");
	assert_string_equal(c->key, "/etc/vgw-agent/tls/server.key");
	assert_int_equal(c->n_client_ca, 1);
	assert_string_equal(c->client_ca[0], "/etc/vgw-agent/tls/ca.crt");
	assert_int_equal(c->n_clients, 2);
	assert_string_equal(c->clients[0].name, "controller");
	assert_int_equal(c->clients[0].role, CONTROL_ROLE_WRITER);
	assert_string_equal(c->clients[1].name, "prometheus");
	assert_int_equal(c->clients[1].role, CONTROL_ROLE_READER);
	assert_string_equal(c->socket, "/run/vgw-agent/control.sock");
	assert_string_equal(c->state_directory, "/var/lib/vgw-agent");
	assert_int_equal(c->probe_port, 9000);
	assert_false(c->protect);
	assert_int_equal(c->log_level, LOG_LEVEL_DEBUG);
	config_free(c);
}

/* Relative to the file, wherever the agent is started. */
static void relative_paths(void **state)
{
	struct config *c = config_of("{'control':{'certificate':'tls/s.crt','key':'../s.key','clientCA':['a',"
				     "'/b']},'socket':'s.sock','stateDirectory':'state'}");
	char path[256];

	(void)state;
	assert_string_equal(c->certificate, directory_file(&dir, "tls/s.crt", path));
	assert_string_equal(c->key, directory_file(&dir, "../s.key", path));
	assert_string_equal(c->client_ca[0], directory_file(&dir, "a", path));
	assert_string_equal(c->client_ca[1], "/b");
	assert_string_equal(c->socket, directory_file(&dir, "s.sock", path));
	assert_string_equal(c->state_directory, directory_file(&dir, "state", path));
	config_free(c);
}

#define TLS "'certificate':'c','key':'k','clientCA':['a']"

static const struct {
	const char *text, *where;
} refusals[] = {
	{"", ""},
	{"{", ""},
	{"[]", ""},
	{"{'unknown':1}", "/unknown"},
	{"{'socket':'a','socket':'b'}", "/socket"},
	{"{'Socket':'a'}", "/Socket"},
	{"{'socket':''}", "/socket"},
	{"{'socket':1}", "/socket"},
	{"{'stateDirectory':''}", "/stateDirectory"},
	{"{'stateDirectory':null}", "/stateDirectory"},
	{"{'probePort':0}", "/probePort"},
	{"{'probePort':65536}", "/probePort"},
	{"{'probePort':9444.5}", "/probePort"},
	{"{'probePort':'9444'}", "/probePort"},
	{"{'protect':'on'}", "/protect"},
	{"{'protect':true}", "/protect"},
	{"{'logLevel':'verbose'}", "/logLevel"},
	{"{'logLevel':7}", "/logLevel"},
	{"{'interfaces':[]}", "/interfaces"},
	{"{'interfaces':{'inside':'eth0'}}", "/interfaces/inside"},
	{"{'interfaces':{'private':''}}", "/interfaces/private"},
	{"{'interfaces':{'private':'sixteen-letters-'}}", "/interfaces/private"},
	{"{'interfaces':{'external':'a/b'}}", "/interfaces/external"},
	{"{'interfaces':{'external':'a b'}}", "/interfaces/external"},
	{"{'interfaces':{'trusted':'eth9'}}", "/interfaces/trusted"},
	{"{'interfaces':{'trusted':['eth9','']}}", "/interfaces/trusted/1"},
	{"{'control':{'listen':['192.168.150.1:9443']}}", "/control/listen"},
	{"{'control':{'listen':['192.168.150.1'],'certificate':'c','key':'k','clientCA':['a']}}",
	 "/control/listen/0"},
	{"{'control':{'listen':['localhost:9443']," TLS "}}", "/control/listen/0"},
	{"{'control':{'listen':['192.168.150.1:9443','192.168.150.1:0']," TLS "}}", "/control/listen/1"},
	{"{'control':{'listen':['fd00::1:9443']," TLS "}}", "/control/listen/0"},
	{"{'control':{'certificate':'c'}}", "/control"},
	{"{'control':{'key':'k'}}", "/control"},
	{"{'control':{'certificate':'','key':'k','clientCA':['a']}}", "/control/certificate"},
	{"{'control':{'certificate':'c','key':'k'}}", "/control/clientCA"},
	{"{'control':{'certificate':'c','key':'k','clientCA':[]}}", "/control/clientCA"},
	{"{'control':{'certificate':'c','key':'k','clientCA':['']}}", "/control/clientCA/0"},
	{"{'control':{'clients':[{'name':'a'}]}}", "/control/clients/0/role"},
	{"{'control':{'clients':[{'role':'reader'}]}}", "/control/clients/0/name"},
	{"{'control':{'clients':[{'name':'','role':'reader'}]}}", "/control/clients/0/name"},
	{"{'control':{'clients':[{'name':'a','role':'admin'}]}}", "/control/clients/0/role"},
	{"{'control':{'clients':[{'name':'a','role':'reader'},{'name':'b','role':'reader','x':1}]}}",
	 "/control/clients/1/x"},
};

static void refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct vgw_err err;
		struct config *c;

		if (load(refusals[i].text, &c, &err) == 0)
			fail_msg("taken: %s", refusals[i].text);
		if (strcmp(err.reason, "InvalidConfig") || strcmp(err.where, refusals[i].where))
			fail_msg("%s at \"%s\" for %s", err.reason, err.where, refusals[i].text);
		assert_string_not_equal(err.text, "");
	}
}

static void too_large(void **state)
{
	struct vgw_err err;
	struct config *c;
	char path[256], *big = malloc(CONFIG_MAX_BYTES + 2);

	(void)state;
	assert_int_equal(load("{'control':{'certificate':'c','key':'k','clientCA':['a','b','c']}}", &c, &err),
			 -E2BIG);
	assert_string_equal(err.reason, "TooLarge");
	assert_string_equal(err.where, "/control/clientCA");
	assert_non_null(big);
	memset(big, ' ', CONFIG_MAX_BYTES + 1);
	memcpy(big, "{}", 2);
	directory_write(&dir, "agent.json", big, CONFIG_MAX_BYTES + 1);
	assert_int_equal(config_load(directory_file(&dir, "agent.json", path), &c, &err), -EFBIG);
	assert_string_equal(err.reason, "FileError");
	assert_string_equal(err.where, path);
	free(big);
}

/* A file that was named must be there. */
static void missing(void **state)
{
	struct vgw_err err;
	struct config *c;
	char path[256];

	(void)state;
	assert_int_equal(config_load(directory_file(&dir, "none.json", path), &c, &err), -ENOENT);
	assert_string_equal(err.where, path);
	assert_null(c);
}

static int set_up(void **state)
{
	(void)state;
	directory_make(&dir);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	directory_remove(&dir);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults), cmocka_unit_test(example),	 cmocka_unit_test(relative_paths),
		cmocka_unit_test(refused),  cmocka_unit_test(too_large), cmocka_unit_test(missing),
	};

	return cmocka_run_group_tests_name("config", tests, set_up, tear_down);
}

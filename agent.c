/* SPDX-License-Identifier: Apache-2.0 */
/* vgw-agent: the private side of one virtual gateway. The verbs are in vgw/cli/, the service in vgw/run.c. */
#include "vgw/cli/cli.h"

int main(int argc, char **argv)
{
	return cli_main(argc, argv);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/model/rules_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "vgw/model/json_reader.h"

int rules_check_generation(const struct spec *wanted, const struct spec *accepted, struct vgw_err *err)
{
	/* Another cluster counts for itself. */
	if (!accepted || strcmp(wanted->cluster, accepted->cluster) != 0)
		return 0;
	if (wanted->generation < accepted->generation)
		return vgw_err_set(err, -ESTALE, "StaleGeneration", "/generation",
				   "generation %" PRId64 " is lower than the accepted %" PRId64,
				   wanted->generation, accepted->generation);
	if (wanted->generation == accepted->generation && !spec_equal(wanted, accepted))
		return vgw_err_set(err, -ESTALE, "StaleGeneration", "/generation",
				   "generation %" PRId64 " is accepted already, with other content",
				   wanted->generation);
	return 0;
}

static int check_addresses(const struct spec *s, struct vgw_err *err)
{
	char where[64], given[IP_ADDR_STRLEN], gateway[IP_ADDR_STRLEN];

	for (size_t i = 0; i < s->n_frontends; i++) {
		const struct spec_frontend *f = &s->frontends[i];

		if (f->placement != SPEC_INTERNAL)
			continue;
		ip_addr_print(&f->gateway, gateway);
		if (f->address.family && ip_addr_cmp(&f->address, &f->gateway) != 0) {
			snprintf(where, sizeof(where), "/frontends/%zu/address", i);
			return vgw_err_set(
				err, -EINVAL, "AddressNotAvailable", where,
				"%s is not the gateway address%s%s: no other carries private frontends",
				ip_addr_print(&f->address, given), *gateway ? " " : "", gateway);
		}
		if (!*gateway) {
			snprintf(where, sizeof(where), "/frontends/%zu/backends/0/address", i);
			return vgw_err_set(
				err, -EINVAL, "AddressNotAvailable", where,
				"the backends are %s, and no private network is: there is no gateway address",
				f->family == IP_V6 ? "IPv6" : "IPv4");
		}
	}
	return 0;
}

static int unsupported(struct vgw_err *err, const char *where, const char *text)
{
	return vgw_err_set(err, -EINVAL, "UnsupportedConfiguration", where, "%s", text);
}

/* In a cloudspace without an external network nothing can be public. */
static int check_private_cloudspace(const struct spec *s, struct vgw_err *err)
{
	char where[64];

	if (s->exposure != SPEC_PRIVATE)
		return unsupported(err, "/controlPlaneExposure",
				   "a private cloudspace requires controlPlaneExposure \"private\"");
	if (*s->connected_cloudspace)
		return unsupported(err, "/managementAccess/connectedCloudspace/cloudspaceId",
				   "a private cloudspace cannot be connected to another for management");
	for (size_t i = 0; i < s->n_frontends; i++) {
		const struct spec_frontend *f = &s->frontends[i];

		if (f->placement != SPEC_EXTERNAL)
			continue;
		snprintf(where, sizeof(where), "/frontends/%zu%s", i,
			 *f->load_balancer_class ? "/loadBalancerClass"
			 : f->internal == 0	 ? "/internal"
						 : "");
		return unsupported(err, where, "a private cloudspace cannot have a public frontend");
	}
	return 0;
}

static int check_supported(const struct spec *s, struct vgw_err *err)
{
	if (s->role == SPEC_ROLE_MANAGEMENT && s->n_frontends)
		return unsupported(err, "/frontends", "role \"management\" has no frontends");
	if (s->exposure == SPEC_PRIVATE && s->geo_networks.n)
		return unsupported(err, "/geo", "geo cannot be used with controlPlaneExposure \"private\"");
	if (s->exposure == SPEC_PRIVATE && !strcmp(s->addon_ccm, "enabled"))
		return unsupported(
			err, "/addons/ccm",
			"a private cluster cannot use the public cloud controller: set it to \"internal\"");
	return s->cloudspace_private ? check_private_cloudspace(s, err) : 0;
}

/* The private network of the control-plane frontend, or NULL. */
static const struct ip_prefix *control_plane_network(const struct spec *s, uint8_t family)
{
	for (size_t i = 0; i < s->private_networks.n; i++)
		if (s->private_networks.v[i].addr.family == family)
			return &s->private_networks.v[i];
	return NULL;
}

/* What clients have in their kubeconfig must not move under a running cluster. */
static int check_live(const struct spec *wanted, const struct rules_live *live, struct vgw_err *err)
{
	const struct spec *old = live ? live->accepted : NULL;
	struct json_quoted name;
	const struct spec_frontend *f = old ? spec_control_plane(old) : NULL;
	char was[IP_PREFIX_STRLEN], is[IP_PREFIX_STRLEN] = "none of its family";
	const struct ip_prefix *network, *now;

	if (!f || !live->control_plane_live)
		return 0;
	if (strcmp(wanted->cluster, old->cluster) != 0)
		return vgw_err_set(err, -EINVAL, "ClusterChanged", "/cluster",
				   "the control plane of cluster \"%s\" is live here: delete its spec first",
				   json_quote(old->cluster, &name));
	if (wanted->exposure != old->exposure)
		return vgw_err_set(err, -EINVAL, "ControlPlaneExposureChanged", "/controlPlaneExposure",
				   "the live control plane is %s and cannot become %s",
				   spec_exposure_name(old->exposure), spec_exposure_name(wanted->exposure));
	network = control_plane_network(old, f->family);
	now = control_plane_network(wanted, f->family);
	if (!network || (now && !ip_prefix_cmp(network, now)))
		return 0;
	if (now)
		ip_prefix_print(now, is);
	return vgw_err_set(err, -EINVAL, "ControlPlaneExposureChanged",
			   wanted->private_networks_plural ? "/cloudspace/privateNetworks"
							   : "/cloudspace/privateNetwork",
			   "the live control plane's private network is %s and cannot become %s",
			   ip_prefix_print(network, was), is);
}

int rules_check(const struct spec *wanted, const struct rules_host *host, const struct rules_live *live,
		struct vgw_err *err)
{
	int rc = rules_check_overlap(wanted, host, err);

	if (!rc)
		rc = check_addresses(wanted, err);
	if (!rc)
		rc = rules_check_ports(wanted, host, err);
	if (!rc)
		rc = check_supported(wanted, err);
	if (!rc)
		rc = check_live(wanted, live, err);
	return rc;
}

static bool overlaps_any(const struct spec_prefixes *p, const struct ip_prefix *network)
{
	for (size_t i = 0; i < p->n; i++)
		if (ip_prefix_overlaps(&p->v[i], network))
			return true;
	return false;
}

void rules_warnings(const struct spec *s, rules_warn_fn *warn, void *ctx)
{
	char net[IP_PREFIX_STRLEN], text[160];

	for (size_t i = 0; i < s->n_ip_pools; i++) {
		/* One that contains pods is refused; without pods there is nothing to compare. */
		if (!s->pods.n || overlaps_any(&s->pods, &s->ip_pools[i].cidr))
			continue;
		snprintf(text, sizeof(text), "the IP pool %s is outside the pod network",
			 ip_prefix_print(&s->ip_pools[i].cidr, net));
		warn(ctx, "PodCIDRMismatch", text,
		     "make the pool part of clusterNetwork.pods, or name its network there");
	}
	if (s->exposure == SPEC_PRIVATE && !strcmp(s->addon_service_lb, "vco"))
		warn(ctx, "ServiceLBVco",
		     "addons.serviceLB \"vco\" on a private cluster: its load balancers are internal all the "
		     "same",
		     "set addons.serviceLB to \"vco-internal\"");
}

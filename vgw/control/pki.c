/* SPDX-License-Identifier: Apache-2.0 */
#include "vgw/control/pki.h"

#include <errno.h>
#include <limits.h>
#include <mbedtls/asn1write.h>
#include <mbedtls/ecp.h>
#include <mbedtls/error.h>
#include <mbedtls/oid.h>
#include <mbedtls/pem.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "netcfg/model/ip.h"
#include "vgw/control/pem_file.h"
#include "vgw/control/tls_compat.h"

enum {
	DAY = 86400,
	CA_DAYS = 3652,
	LEAF_DAYS = 825, /* what Apple's and Mozilla's clients accept from a private CA */
	BACKDATE = 3600, /* clocks on fresh machines */
	ADDRESSES_MAX = 64,
	SAN_SIZE = 2048,
	PEM_SIZE = 8192,
	NAME_SIZE = 128
};

enum pki_use { PKI_CA, PKI_SERVER, PKI_CLIENT };

struct pki_names {
	const char *dns; /* NULL: none */
	struct ip_addr addrs[ADDRESSES_MAX];
	size_t n;
};

struct pki_issuer {
	mbedtls_pk_context key;
	int64_t not_after;
	char name[512]; /* as mbedTLS prints and parses it */
};

static int broken(struct vgw_err *err, const char *where, int code)
{
	char text[160];

	mbedtls_strerror(code, text, sizeof(text));
	return vgw_err_set(err, -EINVAL, "InvalidCertificate", where, "%s", text);
}

static int make_key(mbedtls_pk_context *key)
{
	int rc = mbedtls_pk_setup(key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));

	return rc ? rc
		  : mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(*key), tls_compat_random,
					NULL);
}

/* DER is written backwards: P moves towards START, *LEN grows. Returns mbedTLS's code. */
static int put_tagged(unsigned char **p, unsigned char *start, const void *data, size_t size,
		      unsigned char tag, size_t *len)
{
	int rc = mbedtls_asn1_write_raw_buffer(p, start, data, size);

	if (rc >= 0) {
		*len += (size_t)rc;
		rc = mbedtls_asn1_write_len(p, start, size);
	}
	if (rc >= 0) {
		*len += (size_t)rc;
		rc = mbedtls_asn1_write_tag(p, start, tag);
	}
	if (rc >= 0)
		*len += (size_t)rc;
	return rc < 0 ? rc : 0;
}

static int close_sequence(unsigned char **p, unsigned char *start, size_t *len)
{
	int rc = mbedtls_asn1_write_len(p, start, *len);

	if (rc >= 0) {
		*len += (size_t)rc;
		rc = mbedtls_asn1_write_tag(p, start, MBEDTLS_ASN1_CONSTRUCTED | MBEDTLS_ASN1_SEQUENCE);
	}
	if (rc >= 0)
		*len += (size_t)rc;
	return rc < 0 ? rc : 0;
}

/* RFC 5280 4.2.1.6; 2.28 has no writer of its own. */
static int set_names(mbedtls_x509write_cert *crt, const struct pki_names *names)
{
	unsigned char out[SAN_SIZE], *p = out + sizeof(out);
	size_t i, len = 0;
	int rc = 0;

	for (i = names->n; i-- > 0 && !rc;)
		rc = put_tagged(&p, out, names->addrs[i].bytes, ip_addr_size(&names->addrs[i]), TLS_SAN_IP,
				&len);
	if (!rc && names->dns)
		rc = put_tagged(&p, out, names->dns, strlen(names->dns), TLS_SAN_DNS, &len);
	if (!rc)
		rc = close_sequence(&p, out, &len);
	return rc ? rc
		  : mbedtls_x509write_crt_set_extension(crt, MBEDTLS_OID_SUBJECT_ALT_NAME,
							MBEDTLS_OID_SIZE(MBEDTLS_OID_SUBJECT_ALT_NAME), 0, p,
							len);
}

static int set_extended_usage(mbedtls_x509write_cert *crt, enum pki_use use)
{
	static const char server[] = MBEDTLS_OID_SERVER_AUTH, client[] = MBEDTLS_OID_CLIENT_AUTH;
	unsigned char out[64], *p = out + sizeof(out);
	size_t len = 0;
	int rc = put_tagged(&p, out, use == PKI_SERVER ? server : client, sizeof(server) - 1,
			    MBEDTLS_ASN1_OID, &len);

	if (!rc)
		rc = close_sequence(&p, out, &len);
	return rc ? rc
		  : mbedtls_x509write_crt_set_extension(crt, MBEDTLS_OID_EXTENDED_KEY_USAGE,
							MBEDTLS_OID_SIZE(MBEDTLS_OID_EXTENDED_KEY_USAGE), 0,
							p, len);
}

static int set_serial(mbedtls_x509write_cert *crt)
{
	unsigned char serial[16];
	int rc = tls_compat_random(NULL, serial, sizeof(serial));

	serial[0] = (serial[0] & 0x7f) | 0x40; /* positive, and always of full length */
	return rc ? rc : tls_compat_set_serial(crt, serial, sizeof(serial));
}

static int set_validity(mbedtls_x509write_cert *crt, int64_t from, int64_t to)
{
	char text[2][16];
	time_t t[2] = {from, to};
	struct tm tm;
	int i;

	for (i = 0; i < 2; i++) {
		gmtime_r(&t[i], &tm);
		strftime(text[i], sizeof(text[i]), "%Y%m%d%H%M%S", &tm);
	}
	return mbedtls_x509write_crt_set_validity(crt, text[0], text[1]);
}

static int set_usage(mbedtls_x509write_cert *crt, enum pki_use use, const struct pki_names *names)
{
	int rc = mbedtls_x509write_crt_set_basic_constraints(crt, use == PKI_CA, use == PKI_CA ? 0 : -1);

	if (!rc)
		rc = mbedtls_x509write_crt_set_key_usage(
			crt, use == PKI_CA ? MBEDTLS_X509_KU_KEY_CERT_SIGN | MBEDTLS_X509_KU_CRL_SIGN
					   : MBEDTLS_X509_KU_DIGITAL_SIGNATURE);
	if (!rc && use != PKI_CA)
		rc = set_extended_usage(crt, use);
	if (!rc && (names->dns || names->n))
		rc = set_names(crt, names);
	if (!rc)
		rc = mbedtls_x509write_crt_set_subject_key_identifier(crt);
	return rc ? rc : mbedtls_x509write_crt_set_authority_key_identifier(crt);
}

/* Fills PEM (PEM_SIZE). Returns mbedTLS's code. */
static int write_certificate(enum pki_use use, const char *subject, const struct pki_names *names,
			     mbedtls_pk_context *key, struct pki_issuer *issuer, char *pem)
{
	int64_t from = time(NULL) - BACKDATE,
		to = from + BACKDATE + (int64_t)(use == PKI_CA ? CA_DAYS : LEAF_DAYS) * DAY;
	mbedtls_x509write_cert crt;
	int rc;

	mbedtls_x509write_crt_init(&crt);
	mbedtls_x509write_crt_set_version(&crt, MBEDTLS_X509_CRT_VERSION_3);
	mbedtls_x509write_crt_set_md_alg(&crt, MBEDTLS_MD_SHA256);
	mbedtls_x509write_crt_set_subject_key(&crt, key);
	mbedtls_x509write_crt_set_issuer_key(&crt, &issuer->key);
	rc = mbedtls_x509write_crt_set_subject_name(&crt, subject);
	if (!rc)
		rc = mbedtls_x509write_crt_set_issuer_name(&crt, issuer->name);
	if (!rc)
		rc = set_serial(&crt);
	if (!rc)
		rc = set_validity(&crt, from, to < issuer->not_after ? to : issuer->not_after);
	if (!rc)
		rc = set_usage(&crt, use, names);
	if (!rc)
		rc = mbedtls_x509write_crt_pem(&crt, (unsigned char *)pem, PEM_SIZE, tls_compat_random, NULL);
	mbedtls_x509write_crt_free(&crt);
	return rc;
}

static int join(const char *dir, const char *stem, const char *ending, char *out, struct vgw_err *err)
{
	if (snprintf(out, PATH_MAX, "%s/%s.%s", dir, stem, ending) >= PATH_MAX)
		return vgw_err_set(err, -ENAMETOOLONG, "FileUnwritable", dir, "the path is too long");
	return 0;
}

/* Both files are complete before either name is taken. */
static int store(const char *dir, const char *stem, const char *certificate, mbedtls_pk_context *key,
		 struct vgw_err *err)
{
	char crt_path[PATH_MAX], key_path[PATH_MAX], pem[PEM_SIZE];
	int rc = join(dir, stem, "crt", crt_path, err);

	if (!rc)
		rc = join(dir, stem, "key", key_path, err);
	if (rc)
		return rc;
	rc = mbedtls_pk_write_key_pem(key, (unsigned char *)pem, sizeof(pem));
	rc = rc ? broken(err, key_path, rc) : pem_file_prepare(key_path, pem, strlen(pem), 0600, err);
	explicit_bzero(pem, sizeof(pem));
	if (rc)
		return rc;
	rc = pem_file_prepare(crt_path, certificate, strlen(certificate), 0644, err);
	if (!rc)
		rc = pem_file_commit(key_path, err);
	if (!rc)
		rc = pem_file_commit(crt_path, err);
	if (rc) {
		pem_file_abandon(key_path);
		pem_file_abandon(crt_path);
	}
	return rc;
}

static int make_ca(const char *dir, struct pki_issuer *ca, struct vgw_err *err)
{
	static const struct pki_names none;
	char pem[PEM_SIZE];
	unsigned char tag[4];
	int rc = make_key(&ca->key);

	/* Two CAs at once are how one is replaced: their names must differ. */
	if (!rc)
		rc = tls_compat_random(NULL, tag, sizeof(tag));
	snprintf(ca->name, sizeof(ca->name), "CN=vgw-agent CA %02x%02x%02x%02x", tag[0], tag[1], tag[2],
		 tag[3]);
	ca->not_after = INT64_MAX;
	if (!rc)
		rc = write_certificate(PKI_CA, ca->name, &none, &ca->key, ca, pem);
	ca->not_after = time(NULL) + (int64_t)CA_DAYS * DAY;
	return rc ? broken(err, dir, rc) : store(dir, "ca", pem, &ca->key, err);
}

static int parse_ca(const struct buf *certificate, const struct buf *key, const char *where,
		    struct pki_issuer *ca, struct vgw_err *err)
{
	mbedtls_x509_crt crt;
	int rc;

	mbedtls_x509_crt_init(&crt);
	rc = mbedtls_x509_crt_parse(&crt, (const unsigned char *)buf_str(certificate), certificate->len + 1);
	if (!rc)
		rc = tls_compat_parse_key(&ca->key, (const unsigned char *)buf_str(key), key->len + 1);
	if (!rc)
		rc = tls_compat_check_pair(&crt, &ca->key);
	if (!rc) {
		rc = mbedtls_x509_dn_gets(ca->name, sizeof(ca->name), &crt.subject);
		rc = rc < 0 ? rc : 0;
	}
	ca->not_after = rc ? 0 : tls_compat_time(&crt.valid_to);
	if (rc)
		rc = broken(err, where, rc);
	else if (!tls_compat_is_ca(&crt))
		rc = vgw_err_set(err, -EINVAL, "InvalidCertificate", where, "not a CA");
	else if (ca->not_after <= time(NULL))
		rc = vgw_err_set(err, -EINVAL, "InvalidCertificate", where, "the CA has expired");
	mbedtls_x509_crt_free(&crt);
	return rc;
}

/* The CA of DIR, made when there is none. Half of one is not overwritten: its certificate may be out there.
 */
static int open_ca(const char *dir, struct pki_issuer *ca, struct vgw_err *err)
{
	char crt_path[PATH_MAX], key_path[PATH_MAX];
	struct buf certificate = {0}, key = {0};
	bool has_crt, has_key;
	int rc = join(dir, "ca", "crt", crt_path, err);

	if (!rc)
		rc = join(dir, "ca", "key", key_path, err);
	if (rc)
		return rc;
	has_crt = access(crt_path, F_OK) == 0;
	has_key = access(key_path, F_OK) == 0;
	if (!has_crt && !has_key)
		return make_ca(dir, ca, err);
	if (!has_crt || !has_key)
		return vgw_err_set(err, -EEXIST, "InvalidCertificate", has_crt ? crt_path : key_path,
				   "only one half of the CA is there");
	rc = pem_file_read(crt_path, &certificate, err);
	if (!rc)
		rc = pem_file_read(key_path, &key, err);
	if (!rc)
		rc = parse_ca(&certificate, &key, crt_path, ca, err);
	buf_free(&certificate);
	buf_wipe(&key);
	return rc;
}

static int make_leaf(const char *dir, const char *stem, enum pki_use use, const char *cn,
		     const struct pki_names *names, struct pki_issuer *ca, struct vgw_err *err)
{
	char subject[NAME_SIZE], pem[PEM_SIZE];
	mbedtls_pk_context key;
	int rc;

	snprintf(subject, sizeof(subject), "CN=%s", cn);
	mbedtls_pk_init(&key);
	rc = make_key(&key);
	if (!rc)
		rc = write_certificate(use, subject, names, &key, ca, pem);
	rc = rc ? broken(err, dir, rc) : store(dir, stem, pem, &key, err);
	mbedtls_pk_free(&key);
	return rc;
}

static int collect_names(const char *name, const char *const *addresses, size_t n, struct pki_names *out,
			 struct vgw_err *err)
{
	static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_*";
	size_t i;

	memset(out, 0, sizeof(*out));
	out->dns = name ? name : n ? NULL : "vgw-agent";
	if (out->dns && (!*out->dns || strlen(out->dns) > 253 || out->dns[strspn(out->dns, allowed)]))
		return vgw_err_set(err, -EINVAL, "InvalidArgument", out->dns, "not a DNS name");
	if (n > ADDRESSES_MAX)
		return vgw_err_set(err, -E2BIG, "InvalidArgument", NULL, "at most %d addresses",
				   ADDRESSES_MAX);
	for (i = 0; i < n; i++)
		if (ip_addr_parse(addresses[i], &out->addrs[i]))
			return vgw_err_set(err, -EINVAL, "InvalidArgument", addresses[i], "not an address");
	out->n = n;
	return 0;
}

static bool leaf_there(const char *dir, const char *leaf)
{
	char crt[4096], key[4096];

	snprintf(crt, sizeof(crt), "%s/%s.crt", dir, leaf);
	snprintf(key, sizeof(key), "%s/%s.key", dir, leaf);
	return access(crt, F_OK) == 0 && access(key, F_OK) == 0;
}

int pki_make(const char *dir, const char *name, const char *const *addresses, size_t n, struct vgw_err *err)
{
	static const struct pki_names none;
	struct pki_issuer ca = {.not_after = 0};
	struct pki_names names;
	const char *cn;
	int rc = collect_names(name, addresses, n, &names, err);

	if (rc)
		return rc;
	if (tls_compat_init())
		return vgw_err_set(err, -EIO, "OutOfMemory", NULL, "cryptography cannot be set up");
	if (mkdir(dir, 0755) && errno != EEXIST)
		return vgw_err_set(err, -errno, "FileUnwritable", dir, "%s", strerror(errno));
	/* A common name has at most 64 characters (RFC 5280 A.1); clients go by the SANs anyway. */
	cn = names.dns && strlen(names.dns) <= 64 ? names.dns : !names.dns ? addresses[0] : "vgw-agent";
	mbedtls_pk_init(&ca.key);
	rc = open_ca(dir, &ca, err);
	if (!rc && (name || n || !leaf_there(dir, "server")))
		rc = make_leaf(dir, "server", PKI_SERVER, cn, &names, &ca, err);
	if (!rc && !leaf_there(dir, "client"))
		rc = make_leaf(dir, "client", PKI_CLIENT, "controller", &none, &ca, err);
	mbedtls_pk_free(&ca.key);
	return rc;
}

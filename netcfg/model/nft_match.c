/* SPDX-License-Identifier: Apache-2.0 */
/* Which rules of a chain stay when it is changed: as many as can, in their order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "netcfg/model/nft_table.h"

/* Beyond so many pairs of rules only those at the two ends are kept: the table of lengths would be too large.
 */
enum { MATCH_PAIRS = 1 << 18 };

struct span {
	const struct nft_rule *old, *new;
	size_t n_old, n_new;
};

/* Longest common subsequence: lengths[i][j] is that of what follows rules i and j. */
static int match_middle(const struct span *s, size_t *match, size_t old_offset)
{
	size_t width = s->n_new + 1;
	uint32_t *lengths = calloc((s->n_old + 1) * width, sizeof(*lengths));
	size_t i, j;

	if (!lengths)
		return -ENOMEM;
	for (i = s->n_old; i-- > 0;) {
		for (j = s->n_new; j-- > 0;) {
			uint32_t down = lengths[(i + 1) * width + j], right = lengths[i * width + j + 1];

			lengths[i * width + j] = nft_rule_equal(&s->old[i], &s->new[j])
							 ? lengths[(i + 1) * width + j + 1] + 1
						 : down > right ? down
								: right;
		}
	}
	for (i = 0, j = 0; i < s->n_old && j < s->n_new;) {
		if (nft_rule_equal(&s->old[i], &s->new[j])) {
			match[j++] = old_offset + i++;
		} else if (lengths[(i + 1) * width + j] >= lengths[i * width + j + 1]) {
			i++;
		} else {
			j++;
		}
	}
	free(lengths);
	return 0;
}

int nft_chain_match(const struct nft_chain *old, const struct nft_chain *new, size_t *match)
{
	size_t least = old->n_rules < new->n_rules ? old->n_rules : new->n_rules, head = 0, tail = 0;
	struct span s;

	for (size_t j = 0; j < new->n_rules; j++)
		match[j] = NFT_NO_MATCH;
	for (; head < least && nft_rule_equal(&old->rules[head], &new->rules[head]); head++)
		match[head] = head;
	for (; tail < least - head &&
	       nft_rule_equal(&old->rules[old->n_rules - 1 - tail], &new->rules[new->n_rules - 1 - tail]);
	     tail++)
		match[new->n_rules - 1 - tail] = old->n_rules - 1 - tail;
	s = (struct span){old->rules + head, new->rules + head, old->n_rules - head - tail,
			  new->n_rules - head - tail};
	if (!s.n_old || !s.n_new || (s.n_old + 1) > MATCH_PAIRS / (s.n_new + 1))
		return 0;
	return match_middle(&s, match + head, head);
}

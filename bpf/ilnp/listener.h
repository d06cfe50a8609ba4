/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The map by which the programs on links inform the hooks of sockets. */
#ifndef ROAM_ILNP_LISTENER_H
#define ROAM_ILNP_LISTENER_H

#include "types.h"

struct served_key {
	union half alias; /* of our session address */
	__be16 port;
	__u8 pad[6];
};

struct {
	/* Which real address is the server on that port of ours bound to? */
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct served_key);
	__type(value, struct addr);
	__uint(pinning, LIBBPF_PIN_BY_NAME);
} served SEC(".maps");

#endif

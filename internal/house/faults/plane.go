package main

// plane are faults of the programs in the kernel.
var plane = []fault{
	{"packets with the wrong nonce are delivered", "bpf/lib/nonce.h",
		"	return x[0] == y[0] && x[1] == y[1];", "	return (x[0] & 0xff) == (y[0] & 0xff);",
		"./internal/dataplane/ilnphost", "TestInboundOfSession"},
	{"the checksums of datagrams are not adjusted", "bpf/ilnp/outbound.h",
		"	if (c->fragment != LATER_FRAGMENT &&\n	    csum_adjust_linear(",
		"	if (c->fragment != LATER_FRAGMENT && c->proto != IPPROTO_UDP &&\n	    csum_adjust_linear(",
		"./internal/dataplane/ilnphost", "TestGolden"},
	{"the shares of paths ignore the sizes of packets", "bpf/ilnp/path.h",
		"len * path_cost(p, i) / 2);", "1000 * path_cost(p, i) / 2);",
		"./internal/dataplane/ilnphost", "TestOutboundSpread"},
	{"packets without nonce are taken from any locator", "bpf/ilnp/inbound.h",
		"	case STRANGE_PLACE:\n		return refuse(in, DROP_UNKNOWN_LOCATOR);\n", "	case STRANGE_PLACE:\n		break;\n",
		"./internal/dataplane/ilnphost", "TestInboundOfSession"},
	{"a Locator Update needs no nonce", "bpf/ilnp/inbound.h",
		"		if (in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_LOCATOR_UPDATE)\n			return refuse(",
		"		if (in->c.proto == IPPROTO_ICMPV6 && in->c.type == ICMP6_LOCATOR_UPDATE && p->seq == 0)\n			return refuse(",
		"./internal/dataplane/ilnphost", "TestInboundOfSession"},
	{"the allowance of a locator is ten times as large", "bpf/ilnp/amplification.h",
		"#define ALLOWANCE_FACTOR 2\n", "#define ALLOWANCE_FACTOR 20\n",
		"./internal/dataplane/ilnphost", "TestAllowanceOfWhatOnlyThePeerNamed"},
	{"a pending peer has no allowance", "bpf/ilnp/amplification.h",
		"	if (!(e->given && e->tx_packets < ALLOWANCE_PACKETS) &&\n",
		"	if (e->tx_packets > 1000000 && !(e->given && e->tx_packets < ALLOWANCE_PACKETS) &&\n",
		"./internal/dataplane/ilnphost", "TestAllowanceOfPending"},
	{"a SYN has no nonce", "bpf/ilnp/outbound.h",
		"	return flags & TCP_SYN;", "	return flags & TCP_SYN & 1;",
		"./internal/dataplane/ilnphost", "TestOutboundNonce"},
	{"the first packet after each change of an entry is dropped", "bpf/ilnp/live.h",
		"	if (d && (d->birth != p->birth || d->seq != p->seq))\n		renew(p, d);\n	return d;\n",
		"	if (d && (d->birth != p->birth || d->seq != p->seq)) {\n		renew(p, d);\n		return 0;\n	}\n	return d;\n",
		"./internal/dataplane/ilnphost", "TestOutboundFollowsTheCorrespondent"},
}

// daemon are faults of the daemon.
var daemon = []fault{
	{"resolv.conf is not restored", "internal/dnsio/resolvconf.go",
		"	if isOurs(text) && r.forgetUs(o) {", "	if isOurs(text) && r.forgetUs(o) && false {",
		"./internal/dnsio", "TestTakeAndRestore"},
	{"data use a locator before the Locator Update leaves", "internal/role/ilnphost/engine/output.go",
		"			continue\n		}\n		f(o)\n", "			continue\n		}\n" +
			"		if _, is := o.(ilnp.Transmit); is {\n			defer f(o)\n			continue\n		}\n		f(o)\n",
		"./internal/role/ilnphost/engine", "TestConfirmationUnderFlood"},
	{"sessions are not saved", "internal/role/ilnphost/engine/saver.go",
		"	if s.at.IsZero() && s.file != \"\" {", "	if s.at.IsZero() && s.file != \"\" && s.writing {",
		"./internal/role/ilnphost/engine", "TestSaversWriteInTheirTime"},
}

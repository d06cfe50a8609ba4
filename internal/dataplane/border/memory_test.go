package border

import "testing"

// Memory in the kernel is as docs/results.md states it: of the entries for two site locators and one internal
// one, the example of B. Simpson's dissertation (table 5.1), and of each object.
func TestMemory(t *testing.T) {
	spec, err := loadBpf()
	if err != nil {
		t.Fatal(err)
	}
	value := func(name string) uint32 { return (spec.Maps[name].ValueSize + 7) &^ 7 }
	hashed := func(name string) uint32 { return 48 + (spec.Maps[name].KeySize+7)&^7 + value(name) } // struct htab_elem
	for _, c := range []struct {
		what       string
		bytes      uint32
		documented uint32
	}{
		{"settings", value("borders"), 176},
		{"a locator of a provider", hashed("locators") + value("sites"), 192},
		{"the same, for each processor", value("shares"), 40},
		{"an internal locator", hashed("locators") + value("groups"), 200},
		{"the same, for each processor", value("credits"), 72},
		{"two locators of providers and an internal one", value("borders") + 3*hashed("locators") + 2*value("sites") +
			value("groups"), 760},
		{"the same, for each processor", 2*value("shares") + value("credits"), 152},
		{"a flow in its set, that share of the place", (value("flow_sets") + value("nonce_sets")) / uint32(setFlows), 96},
		{"a flow of which one node has sent a nonce", hashed("pending_flows"), 160},
		{"a probe", hashed("probes"), 80},
		{"a message in fragments", hashed("split_control"), 96},
		{"a share of the ring", hashed("ring_shares"), 80},
		{"a packet that was dropped, for each reason and processor", value("refusals"), 56},
	} {
		t.Logf("%s: %d bytes", c.what, c.bytes)
		if c.bytes != c.documented {
			t.Errorf("%s: %d bytes, documented are %d", c.what, c.bytes, c.documented)
		}
	}
}

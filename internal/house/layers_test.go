package house

import "testing"

func TestLayers(t *testing.T) {
	const types = "package ilnp\n\ntype core struct{ *sender }\n\ntype sender struct{ host }\n\n"
	for name, b := range map[string]breach{
		"down": {files: in("ilnp/a.go", types+"type host struct{ core int }\n\nfunc (c core) f(h host) {}\n")},
		"a parameter up": {files: in("ilnp/a.go", types+"type host struct{}\n\nfunc (h *host) f(s *sender) {}\n"),
			want: "host names sender"},
		"two layers up": {files: in("ilnp/a.go", types+"type host struct{}\n\nfunc (h *host) f() []core { return nil }\n"),
			want: "host names core"},
		"a field up": {files: in("ilnp/a.go", types+"type host struct{ top *core }\n"),
			want: "host names core, which embeds it"},
		"a callback up": {files: in("ilnp/a.go", types+"type host struct{ call func(*sender) }\n"),
			want: "host names sender"},
		"with effects": {files: in("lab/arm/a.go", types+"type host struct{ top *core }\n")},
	} {
		b.rule = "layers"
		t.Run(name, b.check)
	}
}

package quickstart

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"roam"
	"roam/lab/exp"
	"roam/lab/node"
	"roam/lab/topo"
)

// nids are the hosts' Node Identifiers: fixed, so that runs can be compared.
var nids = map[string]roam.NID{
	"mn":  0x1000_0000_0000_00a1,
	"cn1": 0x1000_0000_0000_00c1,
	"cn2": 0x1000_0000_0000_00c2,
}

// hostsFile names the correspondents with their locators, as an administrator
// would.
func hostsFile() string {
	var b strings.Builder
	for i, name := range []string{"cn1", "cn2"} {
		v := roam.ILVFromAddr(cnPrefix(i).Addr())
		v.NID = nids[name]
		fmt.Fprintf(&b, "%s %s\n", v, name)
	}
	return b.String()
}

// startNode starts the daemon on a host and waits until it answers.
func startNode(ctx context.Context, env *exp.Env, h *topo.Host) (*node.Node, error) {
	n, err := node.New(h, node.Binaries{Roam: env.Roam, Roamd: env.Roamd}, node.Options{
		NID: nids[h.Name()], Hosts: hostsFile(), Log: filepath.Join(env.Dir, h.Name()+".roamd.log"),
	})
	if err != nil {
		return nil, err
	}
	return n, n.Start(ctx)
}

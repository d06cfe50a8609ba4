package ilnphost

import (
	"slices"

	"roam"
	ilnpwire "roam/wire/ilnp"
)

// Stack is how the stack of a node deviates from Roam; nothing in its probes identifies it.
type Stack struct {
	Other       bool
	NeverAcks   bool // Locator Updates are neither applied nor acknowledged
	KnownSource bool // Locator Updates are accepted from known locators only
	Strict      bool // so are data, even with the nonce
}

// SetStack makes a node run a stack other than Roam.
func (h *Node) SetStack(s Stack) {
	s.Other = true
	h.stack = s
}

// isOther reports whether a node with that identifier runs another stack.
func (n *Network) isOther(nid roam.NID) bool {
	return slices.ContainsFunc(n.byNID[nid], func(h *Node) bool { return h.stack.Other })
}

// ignores reports whether the stack ignores an authentic control message.
func (s Stack) ignores(e *entry, in Packet) bool {
	if messageType(in) != ilnpwire.TypeLocatorUpdate {
		return false
	}
	q, err := ilnpwire.ParseControl(in.Control, udpPort)
	if err != nil {
		return false
	}
	lu, err := ilnpwire.ParseLocatorUpdate(q.Payload)
	isUpdate := err == nil && lu.Operation == ilnpwire.Advertisement
	return isUpdate && (s.NeverAcks || s.KnownSource && !slices.Contains(e.Accept, in.Src.L64))
}

package control

import "roam"

// FlowRequest asks how flows to a port of a correspondent are sent.
type FlowRequest struct {
	Peer roam.NID `json:"peer"`
	Port int      `json:"port"`
}

// Flow is what happens to flows of one protocol: by the first rule that may match, or by a later
// one if the flow does not meet its condition.
type Flow struct {
	Protocol  string `json:"protocol"`  // "tcp" or "udp"
	Rule      int    `json:"rule"`      // from 1, in the order of roam.conf; 0: none
	Name      string `json:"name"`      // of the rule
	Policy    string `json:"policy"`    // of the rule; "" where there is none
	Condition string `json:"condition"` // what the rule asks for besides, or a rule at the peer; "": nothing
	Paths     []Path `json:"paths"`     // by which these flows leave
	Reason    string `json:"reason"`    // why by these
}

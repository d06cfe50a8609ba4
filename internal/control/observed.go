package control

// KindUpdateSeen is the kind of the event that the role observer counted the first Locator
// Update of a link and direction.
const KindUpdateSeen = "update-seen"

// ObservedCount is the traffic of one class of packets on a link. The role observer reports
// a list of these: RoleReport.Report.
type ObservedCount struct {
	Link        string   `json:"link"`      // "": classes that the table had no space for, on any link
	Direction   string   `json:"direction"` // "in" or "out"
	Protocol    string   `json:"protocol"`  // the upper layer's name or number, behind extension headers
	Flags       []string `json:"flags"`     // "nonce", "locator-update", "unreadable" (protocol: of the IPv6 header)
	Checksum    string   `json:"checksum"`  // "none", "unnecessary", "complete" or "partial"
	Packets     uint64   `json:"packets"`
	Bytes       uint64   `json:"bytes"` // from the IPv6 header on
	PacketsPerS float64  `json:"packets_per_s"`
}

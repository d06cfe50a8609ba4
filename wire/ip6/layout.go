package ip6

// Offsets of the fields of the fixed IPv6 header (RFC 8200 §3):
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|Version| Traffic Class |           Flow Label                  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|         Payload Length        |  Next Header  |   Hop Limit   |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                                                               |
//	+                Source Address: L64, then NID                  +
//	|                         (128 bits)                            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                                                               |
//	+              Destination Address: L64, then NID               +
//	|                         (128 bits)                            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const (
	PayloadLenAt = 4
	NextHeaderAt = 6
	HopLimitAt   = 7
	SrcAt        = 8
	DstAt        = 24
	NIDAt        = 8 // of either address
)

// Offsets in a Hop-by-Hop or Destination Options header (RFC 8200 §§4.3, 4.6), and in
// one of its options (§4.2). The length of the header counts 8-byte units beyond the
// first:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Next Header  |  Hdr Ext Len  |            Options            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+                               +
//	.                                                               .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+- - - - - - - - -
//	|  Option Type  |  Opt Data Len |  Option Data
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+- - - - - - - - -
const (
	ExtNextAt    = 0 // in every extension header
	ExtLenAt     = 1 // in all but the Fragment header
	OptionsAt    = 2
	OptionLenAt  = 1
	OptionDataAt = 2
)

// extUnit is the unit in bytes of every extension header's length, and its least length.
const extUnit = 8

// Offset of the Segments Left field of a Routing header (RFC 8200 §4.4):
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Next Header  |  Hdr Ext Len  |  Routing Type | Segments Left |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	.                      type-specific data                       .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const SegmentsLeftAt = 3

// The Fragment header (RFC 8200 §4.5). Its offset field counts 8-byte units in its upper
// 13 bits, so the field with its lower three bits cleared is the offset in bytes:
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Next Header  |   Reserved    |      Fragment Offset    |Res|M|
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                         Identification                        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const (
	FragmentHeaderLen = 8
	FragmentOffsetAt  = 2
	fragmentIDAt      = 4
	fragmentFlags     = 7
	fragmentMore      = 1
)

// The UDP header (RFC 768):
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|          Source Port          |       Destination Port        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|            Length             |           Checksum            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// The ports of TCP, UDP-Lite and DCCP have the same offsets, and the checksums of UDP-Lite
// and DCCP that of UDP.
const (
	UDPHeaderLen  = 8
	SrcPortAt     = 0
	DstPortAt     = 2
	UDPLengthAt   = 4
	UDPChecksumAt = 6
)

// The TCP header (RFC 9293 §3.1):
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|          Source Port          |       Destination Port        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Sequence Number                        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                    Acknowledgment Number                      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|  Data |       |C|E|U|A|P|R|S|F|                               |
//	| Offset| Rsrvd |W|C|R|C|S|S|Y|I|            Window             |
//	|       |       |R|E|G|K|H|T|N|N|                               |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|           Checksum            |         Urgent Pointer        |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                           [Options]                           |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const (
	TCPHeaderLen    = 20 // without options
	TCPSeqAt        = 4
	TCPAckAt        = 8
	TCPDataOffsetAt = 12 // its upper four bits, in units of 4 bytes
	TCPFlagsAt      = 13
	TCPChecksumAt   = 16
)

// Flags of a TCP header (RFC 9293 §3.1).
const (
	TCPFin uint8 = 1 << iota
	TCPSyn
	TCPRst
	TCPPsh
	TCPAck
)

// The header that all ICMPv6 messages share (RFC 4443 §2.1). Errors and echoes have four
// more bytes before their data (§§3, 4):
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     Type      |     Code      |           Checksum            |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	.                         Message Body                          .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
const (
	ICMPHeaderLen  = 4
	ICMPTypeAt     = 0
	ICMPCodeAt     = 1
	ICMPChecksumAt = 2
	ICMPBodyAt     = 4
)

// dccpHeaderLen is the least length of a DCCP header (RFC 4340 §5.1).
const dccpHeaderLen = 12

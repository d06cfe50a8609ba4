package ilnp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"roam"
	"roam/wire/ip6"
)

// A probe may ask for a report: what the other end has received along a path, and what it has
// sent. Its data are those of an ordinary probe, the token, and behind them space for the
// report. The programs of a host that runs Roam fill that in as they turn the request into its
// reply; other stacks return the data as they are.
//
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                       Token (128 bits)                        .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|                        Mark = "RORP"                          |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|       0       |     Flags     |     Cost      |       0       |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|         Epoch of the counters: another one, new counters      |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|            Clock of the answering end, in µs                  |
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     Packets, then bytes, that it has received (64 bits each)  .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     Packets, then bytes, that it has sent (64 bits each)      .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//	|     MAC (128 bits), in sessions with keys: see ReportMAC      .
//	+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//
// A request may ask about another path of the same session: it then has the locators of that path,
// that of the answering end first, where the answer has the packets and the bytes received.
//
// A request may name connections, by the ports of the asking end and of the answering one, 16 bits each: up to
// eight, where the answer has the counts; the rest is zero. Blocks of SACK of these are to be withheld
// (package multipath) from now on, as where data come along this path. The answer says that they are.
//
// The cost is that of the path by the rate which the asking end has measured in its own direction: each
// step of two halves what is sent there, and the fastest path has 0. It is 15 at most. The answer has it as it was.
//
// Counted are whole segments and datagrams, each segment of a GSO packet by itself, and the
// bytes behind their headers. In a request everything else from the epoch on is zero.
const (
	reportTokenLen   = 16
	reportFlagsAt    = reportTokenLen + 5
	reportCostAt     = reportTokenLen + 6
	reportEpochAt    = reportTokenLen + 8
	reportClockAt    = reportEpochAt + 4
	reportReceivedAt = reportClockAt + 4
	reportSentAt     = reportReceivedAt + 16

	// ReportLen is the length of the data of a probe that asks for a report, SealedReportLen that of one
	// that asks for a report with a MAC.
	ReportLen       = reportSentAt + 16
	SealedReportLen = ReportLen + MACLen

	flagFilled  = 1
	flagCounts  = 2
	flagPerFlow = 4
	flagOther   = 8
	flagAnswers = 16
	flagCrosses = 32
	flagCross   = 64
)

// Connections are TCP connections by their ports, of the asking end and of the answering one; zeros: none.
type Connections [CrossMost][2]uint16

// CrossMost is of how many connections one request can ask that blocks be withheld.
const CrossMost = 8

var reportMark = [4]byte{'R', 'O', 'R', 'P'}

// ErrNotFilled is wrapped by the error of ParseReport for data that the other end has returned
// as they were: it does not run Roam, or a version without reports.
var ErrNotFilled = errors.New("no report")

// Counts are packets and bytes of data.
type Counts struct{ Packets, Bytes uint64 }

// Report is the data of a probe that asks for a report, behind the token. In a request,
// Counted asks the other end to count along this path from now on; in a reply it says that it
// does, and that Received and Sent mean something.
type Report struct {
	PerFlow        bool // the end that asks wants TCP spread by connection
	Counted        bool
	Answers        bool        // the end that asks marks flows, which are to be answered on the path that they take
	Crosses        bool        // in a reply: the answering end withholds blocks of SACK (package multipath)
	Cross          bool        // those of these connections; in a reply: it does so from now on
	Connections    Connections // by the ports of the asking end and of the answering one; zeros: none
	Other          bool        // it is about another path,
	Near, Far      roam.L64    // whose locators, in a request, are these: of the answering end, of the other one
	Cost           uint8       // what the path costs by the rate that the asking end has measured
	Epoch, Clock   uint32
	Received, Sent Counts
	Sealed         bool // it has a MAC, or, in a request, space for one, which is zero
	MAC            [MACLen]byte
}

// AppendRequest appends the data of a probe with this token: what a request has of the report.
func (r Report) AppendRequest(b []byte, token [16]byte) []byte {
	at := len(b)
	b = r.append(b, token, 0)
	if r.Other {
		binary.BigEndian.PutUint64(b[at+reportReceivedAt:], uint64(r.Near))
		binary.BigEndian.PutUint64(b[at+reportReceivedAt+8:], uint64(r.Far))
		return b
	}
	for i, ports := range r.Connections {
		binary.BigEndian.PutUint16(b[at+reportReceivedAt+4*i:], ports[0])
		binary.BigEndian.PutUint16(b[at+reportReceivedAt+4*i+2:], ports[1])
	}
	return b
}

// AppendReply appends the data of the answer.
func (r Report) AppendReply(b []byte, token [16]byte) []byte {
	at := len(b)
	b = r.append(b, token, flagFilled)
	d := b[at:]
	binary.BigEndian.PutUint32(d[reportEpochAt:], r.Epoch)
	binary.BigEndian.PutUint32(d[reportClockAt:], r.Clock)
	for i, n := range []uint64{r.Received.Packets, r.Received.Bytes, r.Sent.Packets, r.Sent.Bytes} {
		binary.BigEndian.PutUint64(d[reportReceivedAt+8*i:], n)
	}
	if r.Sealed {
		copy(d[ReportLen:], r.MAC[:])
	}
	return b
}

func (r Report) append(b []byte, token [16]byte, flags uint8) []byte {
	at := len(b)
	b = append(append(b, token[:]...), reportMark[:]...)
	size := ReportLen
	if r.Sealed {
		size = SealedReportLen
	}
	b = append(b, make([]byte, size-reportTokenLen-len(reportMark))...)
	d := b[at:]
	if r.Counted {
		flags |= flagCounts
	}
	if r.PerFlow {
		flags |= flagPerFlow
	}
	if r.Other {
		flags |= flagOther
	}
	if r.Answers {
		flags |= flagAnswers
	}
	if r.Crosses {
		flags |= flagCrosses
	}
	if r.Cross {
		flags |= flagCross
	}
	d[reportFlagsAt], d[reportCostAt] = flags, r.Cost
	return b
}

// ParseReport reads the data of a probe, or of its answer, that ask for a report. Of data that
// are not filled in it returns the request, and an error that wraps ErrNotFilled.
func ParseReport(data []byte) (Report, error) {
	switch {
	case len(data) < ReportLen:
		return Report{}, fmt.Errorf("report ends at offset %d, want %d bytes: %w", len(data), ReportLen, ip6.ErrTruncated)
	case len(data) > ReportLen && len(data) != SealedReportLen:
		return Report{}, fmt.Errorf("report of %d bytes, want %d or %d: %w",
			len(data), ReportLen, SealedReportLen, ip6.ErrMalformed)
	case !bytes.Equal(data[reportTokenLen:][:len(reportMark)], reportMark[:]):
		return Report{}, fmt.Errorf("report: mark %x at offset %d: %w",
			data[reportTokenLen:][:len(reportMark)], reportTokenLen, ip6.ErrMalformed)
	}
	if data[reportFlagsAt-1] != 0 || data[reportFlagsAt+2] != 0 {
		return Report{}, fmt.Errorf("report: %x at offset %d is not zero beside the flags: %w",
			data[reportFlagsAt-1:reportFlagsAt+3], reportFlagsAt-1, ip6.ErrMalformed)
	}
	flags := data[reportFlagsAt]
	r := Report{Counted: flags&flagCounts != 0, PerFlow: flags&flagPerFlow != 0, Other: flags&flagOther != 0,
		Answers: flags&flagAnswers != 0, Crosses: flags&flagCrosses != 0, Cross: flags&flagCross != 0,
		Cost: data[reportCostAt], Sealed: len(data) == SealedReportLen}
	if flags&flagFilled == 0 {
		if r.Other {
			r.Near = roam.L64(binary.BigEndian.Uint64(data[reportReceivedAt:]))
			r.Far = roam.L64(binary.BigEndian.Uint64(data[reportReceivedAt+8:]))
		} else if r.Cross {
			r.Connections = connectionsIn(data[reportReceivedAt:])
		}
		return r, fmt.Errorf("report: flags %#x at offset %d: %w", flags, reportFlagsAt, ErrNotFilled)
	}
	r.Epoch = binary.BigEndian.Uint32(data[reportEpochAt:])
	r.Clock = binary.BigEndian.Uint32(data[reportClockAt:])
	count := func(at int) Counts {
		return Counts{binary.BigEndian.Uint64(data[at:]), binary.BigEndian.Uint64(data[at+8:])}
	}
	r.Received, r.Sent = count(reportReceivedAt), count(reportSentAt)
	if r.Sealed {
		r.MAC = [MACLen]byte(data[ReportLen:])
	}
	return r, nil
}

// connectionsIn reads the connections that a request names.
func connectionsIn(b []byte) (all Connections) {
	for i := range all {
		all[i] = [2]uint16{binary.BigEndian.Uint16(b[4*i:]), binary.BigEndian.Uint16(b[4*i+2:])}
	}
	return all
}

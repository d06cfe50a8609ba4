package workload

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"roam/lab/topo"
)

// IperfOptions describe one iperf3 test from a client to a server.
type IperfOptions struct {
	Name     string  // of the session, for people
	Target   string  // name or address as the client's application is given it
	Port     int     // of the server; each test has its own
	UDP      bool    // else TCP
	Mbps     float64 // offered load in 10^6 bits per second; 0 for as fast as TCP can
	Length   int     // bytes per write or datagram; 0 for iperf3's own choice
	Seconds  int
	Interval float64 // seconds between samples
	Reverse  bool    // the server sends
	CC       string  // congestion control; "" for the kernel's default
	Parallel int     // connections; 0 or 1 for one
	Affinity string  // processors of client and server, as "0,1"; "" leaves it to the kernel
	// Wrap is a prefix for the command lines of client and server, such as a command that
	// enables Multipath TCP.
	Wrap []string
}

// Iperf is a running iperf3 client with its server.
type Iperf struct {
	opt    IperfOptions
	server *process
	client *process
	mu     sync.Mutex
	wrote  IperfRecord
}

// IperfRecord is the report in JSON that the client of a test wrote.
type IperfRecord struct{ Client string }

// IperfReport is the client's final report.
type IperfReport struct {
	Mbps        float64   // received, over the whole test
	Bytes       float64   // received
	LostPackets int       // UDP only: of which a later one came. Package udpflow counts all
	Packets     int       // UDP only
	Retransmits int       // TCP only
	Streams     []float64 // TCP only: Mb/s received, of each connection
	Samples     []float64 // Mb/s per interval as the client saw it
	HostCPU     float64   // per cent of one core
	RemoteCPU   float64
}

// StartIperf starts a server on one host and, when it listens, the client on
// another.
func StartIperf(ctx context.Context, server, client *topo.Host, opt IperfOptions) (*Iperf, error) {
	prog, err := program("iperf3")
	if err != nil {
		return nil, err
	}
	i := &Iperf{opt: opt}
	port := strconv.Itoa(opt.Port)
	// The server flushes its text output once per interval, so it shows the state of a
	// running test.
	total := uint64(0)
	i.server, err = start(server.AppCommand(ctx, opt.wrapped(prog, "-s", "-1", "-p", port, "-f", "k", "-i", "0.5",
		"--forceflush")...), func(p *process, line string) {
		if seconds, rate, ok := serverInterval(line); ok && rate > 0 {
			total += uint64(rate * seconds)
			p.grow(total, fmt.Sprintf("%.1f Mb/s", rate/1000))
		}
	})
	if err != nil {
		return nil, err
	}
	if err := listening(ctx, server, "tcp6", opt.Port); err != nil {
		i.server.kill()
		return nil, err
	}
	i.client, err = start(client.AppCommand(ctx, opt.wrapped(append([]string{prog}, opt.args()...)...)...),
		func(_ *process, line string) { i.collect(&i.wrote.Client, line) })
	if err != nil {
		i.server.kill()
		return nil, err
	}
	return i, nil
}

func (o IperfOptions) wrapped(argv ...string) []string {
	return append(append([]string{}, o.Wrap...), argv...)
}

// args returns the client's command line.
func (o IperfOptions) args() []string {
	a := []string{"-6", "-c", o.Target, "-p", strconv.Itoa(o.Port), "-J", "-t", strconv.Itoa(o.Seconds)}
	if o.Interval > 0 {
		a = append(a, "-i", strconv.FormatFloat(o.Interval, 'f', -1, 64))
	}
	if o.UDP {
		a = append(a, "-u")
	}
	if o.Mbps > 0 || o.UDP {
		a = append(a, "-b", strconv.FormatInt(int64(o.Mbps*1e6), 10))
	}
	if o.Length > 0 {
		a = append(a, "-l", strconv.Itoa(o.Length))
	}
	if o.Reverse {
		a = append(a, "-R")
	}
	if o.CC != "" && !o.UDP {
		a = append(a, "-C", o.CC)
	}
	if o.Parallel > 1 {
		a = append(a, "-P", strconv.Itoa(o.Parallel))
	}
	if o.Affinity != "" {
		a = append(a, "-A", o.Affinity)
	}
	return a
}

func (i *Iperf) collect(to *string, line string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	*to += line + "\n"
}

// Name returns the name given in the options.
func (i *Iperf) Name() string { return i.opt.Name }

// State returns the progress of the test, from the server's output.
func (i *Iperf) State() State {
	s := i.server.state()
	s.Alive = i.client.state().Alive
	return s
}

// Wait waits for the end of the test and returns the client's report. An interrupted test
// is an error.
func (i *Iperf) Wait(ctx context.Context) (IperfReport, error) {
	rec, err := i.Record(ctx)
	r, perr := rec.Report()
	if err != nil {
		if perr != nil {
			err = fmt.Errorf("%w: %w", err, perr)
		}
		return r, err
	}
	return r, perr
}

// Record waits for the end of the test and returns what the client wrote.
func (i *Iperf) Record(ctx context.Context) (IperfRecord, error) {
	err := i.client.wait(ctx)
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.wrote, err
}

// Kill kills client and server.
func (i *Iperf) Kill() {
	i.client.kill()
	i.server.kill()
}

// intervalLine is a line of the server's text output with rates in kbit/s.
var intervalLine = regexp.MustCompile(`^\[ *\d+\] +([\d.]+)-([\d.]+) +sec +[\d.]+ \w+ +([\d.]+) Kbits/sec`)

// serverInterval returns the length of one interval in seconds and its throughput in
// kbit/s. It ignores the final sum.
func serverInterval(line string) (seconds, rate float64, ok bool) {
	m := intervalLine.FindStringSubmatch(line)
	if m == nil || strings.HasSuffix(strings.TrimSpace(line), "receiver") {
		return 0, 0, false
	}
	from, _ := strconv.ParseFloat(m[1], 64)
	to, _ := strconv.ParseFloat(m[2], 64)
	rate, _ = strconv.ParseFloat(m[3], 64)
	return to - from, rate, true
}

// iperfSum is a sum over streams in iperf3's JSON.
type iperfSum struct {
	Bytes       float64 `json:"bytes"`
	BPS         float64 `json:"bits_per_second"`
	Retransmits int     `json:"retransmits"`
	Lost        int     `json:"lost_packets"`
	Packets     int     `json:"packets"`
}

// Report reads what the client wrote. It uses the receiver's sum, if present.
func (w IperfRecord) Report() (IperfReport, error) {
	var doc struct {
		Intervals []struct {
			Sum iperfSum `json:"sum"`
		} `json:"intervals"`
		End struct {
			Sum      *iperfSum `json:"sum"`
			Sent     *iperfSum `json:"sum_sent"`
			Received *iperfSum `json:"sum_received"`
			Streams  []struct {
				Receiver *iperfSum `json:"receiver"`
			} `json:"streams"`
			CPU struct {
				Host   float64 `json:"host_total"`
				Remote float64 `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
		} `json:"end"`
		Error string `json:"error"`
	}
	var r IperfReport
	if err := json.Unmarshal([]byte(w.Client), &doc); err != nil {
		return r, fmt.Errorf("decode report of iperf3: %w", err)
	}
	for _, i := range doc.Intervals {
		r.Samples = append(r.Samples, i.Sum.BPS/1e6)
	}
	r.HostCPU, r.RemoteCPU = doc.End.CPU.Host, doc.End.CPU.Remote
	if s := doc.End.Sum; s != nil {
		r.Bytes, r.Mbps, r.LostPackets, r.Packets = s.Bytes, s.BPS/1e6, s.Lost, s.Packets
	}
	if s := doc.End.Received; s != nil {
		r.Bytes, r.Mbps = s.Bytes, s.BPS/1e6
	}
	for _, s := range doc.End.Streams {
		if s.Receiver != nil {
			r.Streams = append(r.Streams, s.Receiver.BPS/1e6)
		}
	}
	if s := doc.End.Sent; s != nil {
		r.Retransmits = s.Retransmits
	}
	if doc.Error != "" {
		return r, fmt.Errorf("iperf3 reports: %s", doc.Error)
	}
	return r, nil
}

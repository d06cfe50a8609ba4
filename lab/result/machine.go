package result

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Describe describes the running system. commands maps the name of a program to the command
// line that prints its version on the first line. Unknown values stay empty: a missing
// version must not stop a measurement.
func Describe(ctx context.Context, commands map[string][]string) Machine {
	m := Machine{
		Kernel:     firstLine("/proc/sys/kernel/osrelease"),
		CPU:        procField("/proc/cpuinfo", "model name"),
		Cores:      runtime.NumCPU(),
		Congestion: firstLine("/proc/sys/net/ipv4/tcp_congestion_control"),
		Versions:   map[string]string{"go": runtime.Version()},
	}
	if kb, err := strconv.Atoi(strings.TrimSuffix(procField("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		m.MemoryMB = kb / 1024
	}
	for name, argv := range commands {
		if v := version(ctx, argv); v != "" {
			m.Versions[name] = v
		}
	}
	return m
}

// version runs one command; several programs print their version to standard
// error and exit with a failure, which is fine here.
func version(ctx context.Context, argv []string) string {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	line, _, _ := bytes.Cut(bytes.TrimSpace(out), []byte("\n"))
	if !versionRE.Match(line) {
		return "" // a complaint about an unknown option
	}
	return string(bytes.TrimSpace(line))
}

// versionRE matches a part of every version.
var versionRE = regexp.MustCompile(`[0-9]\.[0-9]|[0-9]{2}`)

func firstLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	line, _, _ := strings.Cut(string(b), "\n")
	return line
}

// procField returns the value of the first "key : value" line of a file in
// /proc.
func procField(path, key string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		k, v, ok := strings.Cut(line, ":")
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

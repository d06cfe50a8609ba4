package config

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Rescue returns the configuration by which a daemon is found and undone although its
// file has faults: the one that a daemon keeps in its run directory, else the defaults
// with the paths that the file names in lines that can be read. It never fails.
func Rescue(file string) Config {
	b, _ := os.ReadFile(file) // nothing can be read from what is not there
	cfg := rescue(b)
	if kept, err := Load(cfg.InForce()); err == nil && kept.Host.RunDir == cfg.Host.RunDir {
		return kept
	}
	return cfg
}

// rescue reads a text line by line: a fault in one says nothing of the others.
func rescue(text []byte) Config {
	cfg := Default()
	paths := map[string]*string{
		"host.run_dir": &cfg.Host.RunDir, "host.state_dir": &cfg.Host.StateDir, "host.hosts": &cfg.Host.Hosts,
		"dns.resolv_conf": &cfg.DNS.ResolvConf,
	}
	section := ""
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			section = strings.TrimSpace(name)
			continue
		}
		if section != "" {
			line = section + "." + line
		}
		var v map[string]map[string]any
		if toml.Unmarshal([]byte(line), &v) != nil {
			continue
		}
		for s, values := range v {
			for k, value := range values {
				path, ok := value.(string)
				if to := paths[s+"."+k]; to != nil && ok && filepath.IsAbs(path) {
					*to = filepath.Clean(path)
				}
			}
		}
	}
	return cfg
}

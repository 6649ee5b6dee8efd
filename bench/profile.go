package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"capd/bench/peers"
)

// profileSource is compiled into a capd only if it is to be profiled. capd itself has no such switch.
const profileSource = `package main

import (
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
)

func init() {
	f, err := os.Create(os.Getenv("` + peers.ProfileEnv + `"))
	if err != nil {
		return
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return
	}
	enough := make(chan os.Signal, 1)
	signal.Notify(enough, syscall.SIGUSR1)
	go func() {
		<-enough
		pprof.StopCPUProfile()
		f.Close()
	}()
}
`

// overlayProfile adds profileSource to capd's command for one build.
func overlayProfile(dir, root string) (string, error) {
	source, overlay := filepath.Join(dir, "profile.go"), filepath.Join(dir, "overlay.json")
	b, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(root, "cmd", "capd", "bench_profile.go"): source}})
	return overlay, errors.Join(err, os.WriteFile(source, []byte(profileSource), 0o644), os.WriteFile(overlay, b, 0o644))
}

// profiling begins a CPU profile of every process that can make one. A profiled capd has begun its own.
func profiling(teams []*team, network, dir string) error {
	if dir == "" {
		return nil
	}
	for _, t := range teams {
		for role, p := range map[string]*process{"client": t.client, "server": t.server} {
			if p == nil || p.foreign {
				continue
			}
			if _, err := p.ask("profile %s", profileName(dir, network, t.c.Name, role)); err != nil {
				return err
			}
		}
	}
	return nil
}

// profiled ends what profiling began.
func profiled(teams []*team, dir string) (err error) {
	if dir == "" {
		return nil
	}
	for _, t := range teams {
		for _, p := range []*process{t.client, t.server} {
			switch {
			case p == nil:
			case !p.foreign:
				_, e := p.ask("profile")
				err = errors.Join(err, e)
			case t.place.Profile != "" && p == t.server:
				err = errors.Join(err, p.cmd.Process.Signal(syscall.SIGUSR1))
				time.Sleep(time.Second) // it is being written
			}
		}
	}
	return err
}

func profileName(dir, network, contender, role string) string {
	return filepath.Join(dir, fmt.Sprintf("%s-%s-%s.pprof", network, contender, role))
}

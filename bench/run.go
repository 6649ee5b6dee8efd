package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"capd/bench/load"
	"capd/bench/peers"
	"capd/bench/records"
	"capd/bench/worlds"
)

type options struct {
	rounds   int
	slice    time.Duration
	scale    float64 // of whole trees; 1 is the size for which their targets are
	only     *regexp.Regexp
	who      *regexp.Regexp
	profiles string
}

// A report is the result of a measurement.
type report struct {
	Begun     time.Time            `json:"begun"`
	Seconds   float64              `json:"seconds"`
	Rounds    int                  `json:"rounds"`
	SliceMs   int64                `json:"sliceMs"`
	Machine   string               `json:"machine"`
	Versions  map[string]string    `json:"versions"` // of contenders, or why one is missing
	Tables    []*tableResult       `json:"tables"`
	Resources []*resources         `json:"resources"`
	Idle      map[string]idleUsage `json:"idle,omitempty"`
	Worlds    *worlds.Result       `json:"worlds,omitempty"`
	Records   []records.Row        `json:"records,omitempty"`
}

// A tableResult is one table over one network.
type tableResult struct {
	Title      string      `json:"title"`
	Network    string      `json:"network"`
	Contenders []string    `json:"contenders"` // the columns, with the floor first
	Rows       []rowResult `json:"rows"`
	table      table
}

// A rowResult is one row. Ratios and Values are by contender: medians over the rounds. A contender that is
// missing cannot do it, or failed.
type rowResult struct {
	Name   string             `json:"name"`
	Values map[string]float64 `json:"values"` // nanoseconds, calls per second or bytes per second
	Ratios map[string]float64 `json:"ratios"` // to the floor; in the last row about chains, to the contender's own
	Errors map[string]string  `json:"errors,omitempty"`
	row    row
}

// resources is what a contender used over one network.
type resources struct {
	Contender     string  `json:"contender"`
	Network       string  `json:"network"`
	ClientMallocs float64 `json:"clientMallocs"` // per small call; below 0: unknown
	ServerMallocs float64 `json:"serverMallocs"`
	PeakRSS       int64   `json:"peakRSS"` // of the server, in bytes; 0: unknown
}

// idleUsage is the memory of a server with idle connections.
type idleUsage struct {
	RSS  int64  `json:"rss"`  // after they have been idle for a while
	Peak int64  `json:"peak"` // while they were opened
	Err  string `json:"err,omitempty"`
}

const idleConnections = 1000

// A team is the two processes of a contender.
type team struct {
	c              *peers.Contender
	place          peers.Place
	server, client *process
}

func (t *team) stop() {
	for _, p := range []*process{t.client, t.server} {
		if p != nil {
			p.stop()
		}
	}
}

func run(ctx context.Context, o options) (*report, error) {
	dir, err := os.MkdirTemp("", "capd-bench")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	place, err := prepare(dir)
	if err != nil {
		return nil, err
	}
	place.Program = filepath.Join(dir, "bench")
	if out, err := exec.CommandContext(ctx, "go", "build", "-tags", "alone", "-o", place.Program, ".").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build -tags alone: %w\n%s", err, out)
	}
	rep := &report{Begun: time.Now(), Rounds: o.rounds, SliceMs: o.slice.Milliseconds(), Machine: machine(), Versions: map[string]string{}}
	for _, network := range []string{"unix", "tls"} {
		place.TLS = network == "tls"
		tables := wanted(network, o)
		teams, err := assemble(ctx, dir, place, network, o, rep, tables)
		if err == nil {
			err = profiling(teams, network, o.profiles)
		}
		if err == nil {
			compete(ctx, teams, network, o, rep, tables)
			err = errors.Join(ctx.Err(), profiled(teams, o.profiles))
		}
		for _, t := range teams {
			t.stop()
		}
		if err != nil {
			return nil, err
		}
	}
	if o.only.MatchString("unix: RSS, idle") {
		idle(ctx, dir, place, o, rep)
	}
	if rep.Worlds, err = wholeTrees(ctx, dir, place, o); err != nil {
		return nil, err
	}
	if rep.Records, err = durable(ctx, dir, o); err != nil {
		return nil, err
	}
	rep.Seconds = time.Since(rep.Begun).Seconds()
	return rep, nil
}

// wanted returns the tables with the rows that were asked for.
func wanted(network string, o options) (tables []table) {
	for _, t := range []table{callRows(), fileRows()} {
		t.rows = slices.DeleteFunc(t.rows, func(r row) bool { return !o.only.MatchString(network + ": " + r.name) })
		if len(t.rows) > 0 {
			tables = append(tables, t)
		}
	}
	return tables
}

// prepare makes the tree, the table and a certificate.
func prepare(dir string) (peers.Place, error) {
	tree := filepath.Join(dir, "tree")
	p := peers.Place{Tree: tree, Table: filepath.Join(tree, load.TableFile), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	cache, err := os.UserCacheDir()
	if err != nil {
		return p, err
	}
	p.Cache = filepath.Join(cache, "capd-bench")
	table := load.MakeTable()
	err = errors.Join(os.MkdirAll(p.Cache, 0o755), os.Mkdir(tree, 0o755),
		os.Mkdir(filepath.Join(tree, load.PutDir), 0o755), os.Mkdir(filepath.Join(tree, load.ListedDir), 0o755),
		os.MkdirAll(filepath.Join(tree, load.DeepDir), 0o755),
		os.WriteFile(p.Table, table, 0o644), os.WriteFile(filepath.Join(tree, load.At(load.DeepStat, load.TableFile)), table, 0o644))
	for _, n := range payloads {
		err = errors.Join(err, os.WriteFile(filepath.Join(tree, load.FileName(n)), table[:n], 0o644),
			os.WriteFile(filepath.Join(tree, load.At(load.DeepFile, load.FileName(n))), table[:n], 0o644))
	}
	for i := range load.ListedSize {
		err = errors.Join(err, os.WriteFile(filepath.Join(tree, load.ListedDir, fmt.Sprintf("entry-%03d.txt", i)), table[:i], 0o644))
	}
	var big []byte
	for chunk := range load.NewStreamed(table, load.TableBytes).Chunks() {
		big = append(big, chunk...)
	}
	return p, errors.Join(err, os.WriteFile(filepath.Join(tree, load.BigFile), big, 0o644), certificate(p))
}

// build builds capd, unless program exists. A profiled capd has one file more.
func build(program, dir string, profiled bool) error {
	if _, err := os.Stat(program); err == nil {
		return nil
	}
	root, err := capdRoot()
	if err != nil {
		return err
	}
	args := []string{"build", "-o", program}
	if profiled {
		overlay, err := overlayProfile(dir, root)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	cmd := exec.Command("go", append(args, "./cmd/capd")...)
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build ./cmd/capd: %w\n%s", err, text)
	}
	return nil
}

// capdRoot returns the directory of capd's source.
func capdRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "capd").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m capd: %w", err)
	}
	return strings.TrimSpace(string(out)), nil
}

// certificate makes a key and a self-signed certificate.
func certificate(p peers.Place) error {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"}, DNSNames: []string{"bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, public, private)
	if err != nil {
		return err
	}
	key, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(p.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o644),
		os.WriteFile(p.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}), 0o600))
}

// assemble starts every contender that can run here and has a row.
func assemble(ctx context.Context, dir string, place peers.Place, network string, o options, rep *report, tables []table) ([]*team, error) {
	var teams []*team
	for i, c := range peers.All {
		if i > 0 && !o.who.MatchString(c.Name) || !slices.ContainsFunc(tables, func(t table) bool { return t.has(ops(c, network)) }) {
			continue
		}
		if c == peers.Capd {
			place.Capd = filepath.Join(dir, "capd")
			if err := build(place.Capd, dir, o.profiles != ""); err != nil {
				return teams, err
			}
		}
		version, err := c.Version(place)
		if err != nil {
			rep.Versions[c.Name] = "not here: " + err.Error()
			continue
		}
		rep.Versions[c.Name] = version
		t := &team{c: c, place: place}
		if o.profiles != "" && c == peers.Capd {
			t.place.Profile = profileName(o.profiles, network, c.Name, "server")
		}
		teams = append(teams, t)
		if err := t.start(ctx, filepath.Join(dir, fmt.Sprintf("%s-%d", network, i))); err != nil {
			return teams, fmt.Errorf("%s: %w", c.Name, err)
		}
	}
	return teams, nil
}

// ops returns what c can do over a network.
func ops(c *peers.Contender, network string) []string {
	if network == "tls" {
		return c.OpsTLS
	}
	return c.Ops
}

// start starts both processes.
func (t *team) start(ctx context.Context, socket string) error {
	if err := t.serve(ctx, socket); err != nil {
		return err
	}
	var err error
	if t.c.ClientCommand != nil {
		t.client, _, err = start(ctx, t.c.ClientCommand(t.place), nil)
	} else {
		t.client, _, err = start(ctx, nil, &role{t.c.Name, false, t.place})
	}
	return err
}

// serve starts the server.
func (t *team) serve(ctx context.Context, socket string) (err error) {
	t.place.Scratch = socket + ".d"
	if t.place.Address = socket; t.place.TLS {
		t.place.Address = "127.0.0.1:0"
	}
	var hello string
	switch {
	case t.c.Command != nil:
		if t.server, hello, err = start(ctx, t.c.Command(t.place), nil); err != nil {
			return err
		}
		for {
			if address, ok := t.c.Address(t.place, hello); ok {
				t.place.Address = address
				break
			}
			if hello, err = t.server.line(); err != nil {
				return err
			}
		}
	case t.c.Serve != nil:
		if t.server, hello, err = start(ctx, nil, &role{t.c.Name, true, t.place}); err != nil {
			return err
		}
		t.place.Address = hello
	}
	return nil
}

// mallocs returns how much the server has allocated, or 0 if it does not say.
func (t *team) mallocs() uint64 {
	if t.c.Serve == nil {
		return 0
	}
	r, err := t.server.ask("stats")
	if err != nil {
		return 0
	}
	return r.Mallocs
}

// compete measures every table.
func compete(ctx context.Context, teams []*team, network string, o options, rep *report, tables []table) {
	used := map[string]*resources{}
	for _, t := range teams {
		used[t.c.Name] = &resources{Contender: t.c.Name, Network: network, ClientMallocs: -1, ServerMallocs: -1}
	}
	for _, tab := range tables {
		m := measure(ctx, tab, teams, network, o, used)
		rep.Tables = append(rep.Tables, m.result(tab, teams, network))
	}
	for _, t := range teams {
		u := used[t.c.Name]
		if t.server != nil {
			u.PeakRSS, _ = t.server.memory("VmHWM")
		}
		rep.Resources = append(rep.Resources, u)
	}
}

// measured holds the results of a table: by slice and contender, one per round.
type measured struct {
	slices map[slice]map[string][]load.Result
	errs   map[slice]map[string]string
}

// measure measures the slices that the rows need, round after round.
func measure(ctx context.Context, tab table, teams []*team, network string, o options, used map[string]*resources) *measured {
	m := &measured{map[slice]map[string][]load.Result{}, map[slice]map[string]string{}}
	var all []slice
	for _, r := range tab.rows {
		for _, s := range []slice{r.slice, r.to} {
			if s.op != "" && !slices.Contains(all, s) {
				all = append(all, s)
				m.slices[s], m.errs[s] = map[string][]load.Result{}, map[string]string{}
			}
		}
	}
	for round := range o.rounds {
		for _, s := range all {
			for i := range teams {
				t := teams[(i+round)%len(teams)] // each contender goes first in some round
				if ctx.Err() != nil || !slices.Contains(ops(t.c, network), s.op) || t.c.Alone && s.outstanding > 1 || m.errs[s][t.c.Name] != "" {
					continue
				}
				before := t.mallocs()
				r, err := t.client.ask("run %s %d %d %d", s.op, s.size, s.outstanding, o.slice.Milliseconds())
				if err != nil {
					m.errs[s][t.c.Name] = err.Error()
					delete(m.slices[s], t.c.Name)
					fmt.Fprintf(os.Stderr, "bench: %s, %s: %v\n", t.c.Name, s.op, err)
					continue
				}
				m.slices[s][t.c.Name] = append(m.slices[s][t.c.Name], r)
				if s.op == load.Echo && s.outstanding == 1 {
					u := used[t.c.Name]
					if t.c.ClientCommand == nil {
						u.ClientMallocs = float64(r.Mallocs) / float64(r.N)
					}
					if after := t.mallocs(); before > 0 {
						u.ServerMallocs = float64(after-before) / float64(r.N)
					}
				}
			}
		}
	}
	return m
}

func (m *measured) result(tab table, teams []*team, network string) *tableResult {
	res := &tableResult{Title: tab.title, Network: network, table: tab}
	for _, c := range peers.All {
		if slices.ContainsFunc(tab.rows, func(r row) bool { return len(m.slices[r.slice][c.Name]) > 0 }) {
			res.Contenders = append(res.Contenders, c.Name)
		}
	}
	for _, r := range tab.rows {
		out := rowResult{Name: r.name, Values: map[string]float64{}, Ratios: map[string]float64{}, Errors: m.errs[r.slice], row: r}
		floor := m.slices[r.slice][peers.Floor.Name]
		for _, t := range teams {
			name := t.c.Name
			got := m.slices[r.slice][name]
			base, of := floor, r.slice
			if r.to.op != "" {
				base, of = m.slices[r.to][name], r.to
			}
			if len(got) == 0 {
				continue
			}
			var values, ratios []float64
			for i := range got {
				values = append(values, r.metric.of(got[i], r.slice))
				if i < len(base) {
					ratios = append(ratios, r.metric.of(got[i], r.slice)/r.metric.of(base[i], of))
				}
			}
			out.Values[name] = median(values)
			if len(ratios) > 0 {
				out.Ratios[name] = median(ratios)
			}
		}
		res.Rows = append(res.Rows, out)
	}
	return res
}

// idle measures servers with many idle connections.
func idle(ctx context.Context, dir string, place peers.Place, o options, rep *report) {
	place.TLS = false
	rep.Idle = map[string]idleUsage{}
	for i, c := range peers.All {
		if c.Idle == nil || !o.who.MatchString(c.Name) {
			continue
		}
		t := &team{c: c, place: place}
		u, err := t.idle(ctx, filepath.Join(dir, fmt.Sprint("idle-", i)))
		t.stop()
		if err != nil {
			fmt.Fprintf(os.Stderr, "bench: %s, idle connections: %v\n", c.Name, err)
			u = idleUsage{Err: err.Error()}
		}
		rep.Idle[c.Name] = u
	}
}

// settle is how long connections are idle before their server's memory is measured again.
const settle = 3 * time.Second

func (t *team) idle(ctx context.Context, socket string) (u idleUsage, err error) {
	if err := t.start(ctx, socket); err != nil {
		return u, err
	}
	if _, err := t.client.ask("idle %d", idleConnections); err != nil {
		return u, err
	}
	time.Sleep(settle)
	open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", t.server.cmd.Process.Pid))
	if err != nil {
		return u, err
	}
	if len(open) < idleConnections {
		return u, fmt.Errorf("only %d descriptors are open", len(open))
	}
	if u.Peak, err = t.server.memory("VmHWM"); err != nil {
		return u, err
	}
	u.RSS, err = t.server.memory("VmRSS")
	return u, err
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"capd/bench/load"
	"capd/bench/peers"
	"capd/bench/records"
	"capd/bench/worlds"
)

func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" { // this process is a contender
		childMain()
		return
	}
	os.Exit(m.Run())
}

// TestSmoke runs the floor, the vat and all of capd, for a moment each, over both networks.
func TestSmoke(t *testing.T) {
	rep, err := run(t.Context(), options{
		rounds: 1, slice: 5 * time.Millisecond,
		only: regexp.MustCompile(`^(unix|tls): .*(small call|calls/s, 16|chain|(read|write) (4|256) KiB|stream|stat, p50|list|whole file of 64|put 4)`),
		who:  regexp.MustCompile(`^(ping-pong|vat|capd)$`),
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Tables) != 4 {
		t.Fatalf("%d tables, not 4: calls and files over two networks", len(rep.Tables))
	}
	for _, table := range rep.Tables {
		for _, r := range table.Rows {
			for name, why := range r.Errors {
				t.Errorf("%s, %s: %s: %s", table.Network, r.Name, name, why)
			}
			for _, name := range []string{peers.Floor.Name, table.table.subject} {
				if name == peers.Floor.Name && r.row.slice.op == load.Chain {
					continue
				}
				if r.Values[name] <= 0 || name != peers.Floor.Name && r.Ratios[name] <= 0 {
					t.Errorf("%s, %s: nothing was measured for %s", table.Network, r.Name, name)
				}
			}
		}
	}
	for _, u := range rep.Resources {
		if u.PeakRSS == 0 {
			t.Errorf("%s over %s: no memory", u.Contender, u.Network)
		}
		if u.Contender == peers.Vat.Name && (u.ClientMallocs == 0 || u.ServerMallocs == 0) {
			t.Errorf("the vat over %s: no allocations were counted", u.Network)
		}
	}
	testForms(t, rep, "small call, p50", "ping-pong", "capd")
}

// testForms writes rep in every form, and checks that words are in it.
func testForms(t *testing.T, rep *report, words ...string) {
	var text, json bytes.Buffer
	if err := rep.text(&text); err != nil {
		t.Fatal(err)
	}
	if err := rep.json(&json); err != nil {
		t.Fatal(err)
	}
	for _, want := range words {
		if !strings.Contains(text.String(), want) || !strings.Contains(json.String(), want) {
			t.Errorf("%q is missing in\n%s", want, text.String())
		}
	}
	doc := filepath.Join(t.TempDir(), "doc.md")
	for range 2 { // the second time it replaces
		if _, err := os.Stat(doc); err != nil {
			if err := os.WriteFile(doc, []byte("before\n"+beginMark+"old\n"+endMark+"after\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if err := rep.into(doc); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	got := string(b)
	if !strings.HasPrefix(got, "before\n"+beginMark) || !strings.HasSuffix(got, endMark+"after\n") ||
		strings.Contains(got, "old") || strings.Count(got, "### ") != len(rep.grids()) {
		t.Errorf("the tables were put into the document as\n%s", got)
	}
}

// TestWorlds runs everything that is measured of whole trees, with small trees.
func TestWorlds(t *testing.T) {
	rep, err := run(t.Context(), options{rounds: 1, scale: 0.002, only: regexp.MustCompile(`^worlds: `), who: regexp.MustCompile(`^$`)})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Worlds.Rows) == 0 || len(rep.Worlds.Memory) == 0 {
		t.Fatal("nothing was measured")
	}
	for _, r := range rep.Worlds.Rows {
		if strings.Contains(r.Err, "is not installed") {
			continue // its answer says so, which is enough here
		}
		if r.Err != "" || r.Base <= 0 || r.Value <= 0 || r.Ratio <= 0 {
			t.Errorf("%+v", r)
		}
	}
	for _, h := range rep.Worlds.Memory {
		if h.Err != "" || h.Bytes <= 0 {
			t.Errorf("%+v", h)
		}
	}
	testForms(t, rep, "cp -a", "cas.Put", "memory of a mount")
}

// TestIdle measures a server's memory with idle connections.
func TestIdle(t *testing.T) {
	dir := t.TempDir()
	place, err := prepare(dir)
	if err != nil {
		t.Fatal(err)
	}
	team := &team{c: peers.Vat, place: place}
	u, err := team.idle(t.Context(), filepath.Join(dir, "s"))
	team.stop()
	if err != nil {
		t.Fatal(err)
	}
	if u.RSS < 1<<20 || u.Peak < u.RSS {
		t.Errorf("the server holds %d bytes, and held %d", u.RSS, u.Peak)
	}
}

// TestJudge checks the verdicts on figures that reach a target and figures that do not.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		row    row
		ratios map[string]float64
		want   string
	}{
		{row{metric: p50, target: 1.2}, map[string]float64{"vat": 1.2}, "met"},
		{row{metric: p50, target: 1.2}, map[string]float64{"vat": 1.21}, "MISSED"},
		{row{metric: callRate, target: 0.7}, map[string]float64{"vat": 0.7}, "met"},
		{row{metric: callRate, target: 0.7}, map[string]float64{"vat": 0.69}, "MISSED"},
		{row{metric: callRate}, map[string]float64{"vat": 0.1}, ""},
		{row{metric: callRate}, map[string]float64{"C++": 0.1}, ""},
		{row{metric: p50}, map[string]float64{"capd": 2, "sftp": 3, "floor": 1, "vat": 1}, "met"},
		{row{metric: p50}, map[string]float64{"capd": 2, "sftp": 1.9}, "MISSED: behind sftp"},
		{row{metric: byteRate}, map[string]float64{"capd": 0.5, "C++": 0.6, "sftp": 0.4}, "MISSED: behind C++"},
		{row{metric: p50, target: 1.5}, map[string]float64{"capd": 1.6, "sftp": 2}, "MISSED"},
		{row{metric: p50, slice: slice{op: load.Put}}, map[string]float64{"capd": 2, "sftp": 1, "MCP": 1, "sftp+fsync": 3}, "met"},
		{row{metric: p50, slice: slice{op: load.Put}}, map[string]float64{"capd": 2, "sftp+fsync": 1}, "MISSED: behind sftp+fsync"},
	} {
		tab := &tableResult{table: callRows()}
		if _, ok := c.ratios["capd"]; ok {
			tab.table = fileRows()
		}
		if got := tab.judge(rowResult{row: c.row, Ratios: c.ratios})[1]; got != c.want {
			t.Errorf("%v of %+v is judged %q, not %q", c.ratios, c.row, got, c.want)
		}
	}
}

// TestWorldCells checks what is printed of a row about whole trees.
func TestWorldCells(t *testing.T) {
	for _, c := range []struct {
		row  worlds.Row
		want string
	}{
		{worlds.Row{Base: 0.1, Value: 0.2, Ratio: 2, Target: 2}, "100.0 ms|200.0 ms|2.00|≤ 2.00|met"},
		{worlds.Row{Base: 0.1, Value: 0.2, Ratio: 2, Target: 1.3}, "100.0 ms|200.0 ms|2.00|≤ 1.30|MISSED"},
		{worlds.Row{Rate: true, Base: 1e8, Value: 7e7, Ratio: 0.7, Target: 0.7}, "100 MB/s|70 MB/s|0.70|≥ 0.70|met"},
		{worlds.Row{Rate: true, Base: 1e8, Value: 6e7, Ratio: 0.6, Target: 0.7}, "100 MB/s|60 MB/s|0.60|≥ 0.70|MISSED"},
		{worlds.Row{Base: 0.1, Value: 0.2, Ratio: 2, Within: 0.1}, "100.0 ms|200.0 ms|2.00|≤ 100 ms|MISSED"},
		{worlds.Row{Base: 0.1, Value: 0.09, Ratio: 0.9, Within: 0.1}, "100.0 ms|90.0 ms|0.90|≤ 100 ms|met"},
		{worlds.Row{Base: 0.1, Value: 0.2, Ratio: 2}, "100.0 ms|200.0 ms|2.00||"},
		{worlds.Row{Value: 0.2, Target: 1, Err: "fd is not installed"}, "–|200.0 ms|–|≤ 1.00|fd is not installed"},
		{worlds.Row{Target: 1, Within: 0.1}, "–|–|–|≤ 1.00, ≤ 100 ms|"},
	} {
		if got := strings.Join(worldCells(c.row), "|"); got != c.want {
			t.Errorf("of %+v is said %s, not %s", c.row, got, c.want)
		}
	}
}

// TestPayload checks that a wrong payload is noticed.
func TestPayload(t *testing.T) {
	table := load.MakeTable()
	for _, p := range load.Pieces(table, 4<<10) {
		if err := p.Check(bytes.Clone(p.Bytes)); err != nil {
			t.Error(err)
		}
		wrong := bytes.Clone(p.Bytes)
		wrong[len(wrong)/2] ^= 1
		if p.Check(wrong) == nil || p.Check(p.Bytes[1:]) == nil || p.CheckSum(p.Sum+1) == nil {
			t.Error("a wrong payload is taken for the right one")
		}
	}
}

// TestGenerated compares the Go of the schema with the schema.
func TestGenerated(t *testing.T) {
	if _, err := exec.LookPath("capnp"); err != nil {
		if os.Getenv("CI") != "" || os.Getenv("CAPD_CI") != "" {
			t.Fatal(err)
		}
		t.Skip("the schema compiler is not installed: whether the generated code is current is not known")
	}
	cmd := exec.Command("go", "run", "./capnp/gen", "-check", "bench/proto")
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestRecords runs everything that is measured of durable state, with few entries and grants.
func TestRecords(t *testing.T) {
	rep, err := run(t.Context(), options{rounds: 1, slice: 20 * time.Millisecond, scale: 0.002, only: regexp.MustCompile(`^records: `), who: regexp.MustCompile(`^$`)})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Records) != 19 {
		t.Fatalf("%d rows", len(rep.Records))
	}
	for _, r := range rep.Records {
		if strings.Contains(r.Err, "strace") || strings.Contains(r.Err, "npm") {
			continue // its answer says so, which is enough here
		}
		if r.Err == "" && strings.Contains(r.Name, "watched directories") {
			continue // so few may fit into memory that is there
		}
		if r.Err != "" || r.Value <= 0 || r.Floor != "" && (r.Base <= 0 || r.Ratio <= 0) {
			t.Errorf("%+v", r)
		}
	}
	testForms(t, rep, "revoke: syncs", "start with 200 grants", "record: off")
}

// TestRecordCells: a target is for the ratio if there is a floor, and for the figure if not.
func TestRecordCells(t *testing.T) {
	for want, row := range map[string]records.Row{
		"100.0 µs|130.0 µs|1.30|≤ 1.35|met":    {Floor: "f", Unit: "µs", Base: 100, Value: 130, Ratio: 1.3, Target: 1.35},
		"100.0 µs|140.0 µs|1.40|≤ 1.35|MISSED": {Floor: "f", Unit: "µs", Base: 100, Value: 140, Ratio: 1.4, Target: 1.35},
		"10/s|90/s|9.00|≥ 8.00|met":            {Floor: "f", Unit: "/s", More: true, Base: 10, Value: 90, Ratio: 9, Target: 8},
		"10/s|70/s|7.00|≥ 8.00|MISSED":         {Floor: "f", Unit: "/s", More: true, Base: 10, Value: 70, Ratio: 7, Target: 8},
		"–|3.00|–|≤ 3.00|met":                  {Value: 3, Target: 3},
		"–|3.20|–|≤ 3.00|MISSED":               {Value: 3.2, Target: 3},
		"–|1999/s|–|≥ 2000/s|MISSED":           {Unit: "/s", More: true, Value: 1999, Target: 2000},
		"–|–|–|≤ 3.00|no strace":               {Target: 3, Err: "no strace"},
	} {
		if got := strings.Join(recordCells(row), "|"); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}

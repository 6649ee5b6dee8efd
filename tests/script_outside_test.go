package tests

import (
	"database/sql"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptSQL runs a statement on the database of a state directory, as somebody does who goes round capd.
func scriptSQL(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", filepath.Join(args[0], "state.db"))
	ts.Check(err)
	defer db.Close()
	r, err := db.Exec(args[1])
	ts.Check(err)
	n, err := r.RowsAffected()
	ts.Check(err)
	if n == 0 {
		ts.Fatalf("%s changed nothing", args[1])
	}
}

var metricsURL = regexp.MustCompile(`http://[0-9.:]+/metrics`)

// scriptMetrics gets what capd serve measures, with what is in a file as the bearer, if there is one. The answer goes to $SCRATCH/out.
func scriptMetrics(ts *testscript.TestScript, neg bool, args []string) {
	url := metricsURL.FindString(ts.ReadFile(filepath.Join(ts.Getenv("SCRATCH"), "served")))
	r, err := http.NewRequest(http.MethodGet, url, nil)
	ts.Check(err)
	if len(args) > 0 {
		r.Header.Set("Authorization", "Bearer "+strings.TrimSpace(ts.ReadFile(args[0])))
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := client.Do(r)
	ts.Check(err)
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	ts.Check(err)
	if neg == (got.StatusCode == http.StatusOK) {
		ts.Fatalf("%s answered %s", url, got.Status)
	}
	ts.Check(os.WriteFile(filepath.Join(ts.Getenv("SCRATCH"), "out"), text, 0o600))
}

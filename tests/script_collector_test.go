package tests

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"

	"github.com/rogpeppe/go-internal/testscript"
	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	"google.golang.org/protobuf/proto"
)

// scriptCollector is an OpenTelemetry collector. Its URL goes into a variable. The bodies of the log records that it gets go to $SCRATCH/collected, a
// line each. It answers that it is unavailable while there is a file $SCRATCH/down.
func scriptCollector(ts *testscript.TestScript, _ bool, args []string) {
	file, down := filepath.Join(ts.Getenv("SCRATCH"), "collected"), filepath.Join(ts.Getenv("SCRATCH"), "down")
	out, err := os.Create(file)
	ts.Check(err)
	var mu sync.Mutex
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var m collector.ExportLogsServiceRequest
		text, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(text, &m)
		}
		if _, there := os.Stat(down); err != nil || there == nil || r.URL.Path != "/v1/logs" {
			http.Error(w, "unavailable", http.StatusServiceUnavailable)
			return
		}
		for _, of := range m.ResourceLogs {
			for _, scope := range of.ScopeLogs {
				for _, l := range scope.LogRecords {
					_, _ = out.WriteString(l.Body.GetStringValue() + "\n") // a script that waits for it fails
				}
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	ts.Defer(func() {
		s.Close()
		out.Close()
	})
	ts.Setenv(args[0], s.URL)
}

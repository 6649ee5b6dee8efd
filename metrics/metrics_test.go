package metrics

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	var b strings.Builder
	err := Write(&b, []Metric{
		One("capd_a", Gauge, "A \\ and\na line.", 1.5),
		{"capd_b_total", "B.", Counter, []Sample{{Label: "kind", Is: "x\"\\\n", Value: 2}, {Label: "kind", Is: "y", Value: 3e9}}},
		Distribution("capd_c_seconds", "C.", []float64{0.001, 1}, []uint64{4, 1, 2}, 7.25),
		{"capd_d", "D.", Gauge, nil},
	})
	const want = `# HELP capd_a A \\ and\na line.
# TYPE capd_a gauge
capd_a 1.5
# HELP capd_b_total B.
# TYPE capd_b_total counter
capd_b_total{kind="x\"\\\n"} 2
capd_b_total{kind="y"} 3e+09
# HELP capd_c_seconds C.
# TYPE capd_c_seconds histogram
capd_c_seconds_bucket{le="0.001"} 4
capd_c_seconds_bucket{le="1"} 5
capd_c_seconds_bucket{le="+Inf"} 7
capd_c_seconds_sum 7.25
capd_c_seconds_count 7
# HELP capd_d D.
# TYPE capd_d gauge
`
	if err != nil || b.String() != want {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// Only who has the token is told anything.
func TestHandler(t *testing.T) {
	var failed error
	gather := func(context.Context) ([]Metric, error) { return []Metric{One("capd_a", Gauge, "A.", 1)}, failed }
	for _, c := range []struct {
		token, path, header string
		status              int
	}{
		{"", "/metrics", "", 200},
		{"", "/metrics", "Bearer anything", 200},
		{"", "/", "", 404},
		{"", "/metrics/", "", 404},
		{"secret", "/metrics", "Bearer secret", 200},
		{"secret", "/metrics", "bearer secret", 200},
		{"secret", "/metrics", "", 401},
		{"secret", "/metrics", "Bearer ", 401},
		{"secret", "/metrics", "Bearer secre", 401},
		{"secret", "/metrics", "Bearer secrets", 401},
		{"secret", "/metrics", "Basic secret", 401},
		{"secret", "/metrics", "secret", 401},
		{"secret", "/other", "Bearer secret", 404},
	} {
		s := httptest.NewServer(Handler(c.token, gather))
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		got, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(got.Body)
		got.Body.Close()
		s.Close()
		if err != nil || got.StatusCode != c.status || strings.Contains(string(text), "capd_a 1") != (c.status == 200) {
			t.Errorf("%+v: %d %q %v", c, got.StatusCode, text, err)
		}
	}
	failed = errors.New("a host path")
	w := httptest.NewRecorder()
	Handler("", gather).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "host path") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	Handler("", gather).ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/metrics", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

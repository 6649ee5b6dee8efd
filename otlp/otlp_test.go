package otlp

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/logs/v1"
	logs "go.opentelemetry.io/proto/otlp/logs/v1"
	"google.golang.org/protobuf/proto"

	"capd/record"
	"capd/vfs"
	"capd/vfs/vfstest/check"
)

// A collector gets each entry as a log record, and one that refuses makes Send fail.
func TestSend(t *testing.T) {
	var got []*logs.LogRecord
	var path, service string
	status := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		check.OK(t, err)
		var m collector.ExportLogsServiceRequest
		check.OK(t, proto.Unmarshal(text, &m))
		path = r.URL.Path
		for _, of := range m.ResourceLogs {
			for _, a := range of.Resource.Attributes {
				if a.Key == "service.name" {
					service = a.Value.GetStringValue()
				}
			}
			for _, scope := range of.ScopeLogs {
				got = append(got, scope.LogRecords...)
			}
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.WriteHeader(status)
	}))
	defer s.Close()
	f, err := Open(s.URL)
	check.OK(t, err)
	defer func() { check.OK(t, f.Close(t.Context())) }()
	entries := []record.Numbered{
		{Number: 7, Entry: record.Entry{Format: 1, At: 1795436004580, Kind: record.Intended, Op: "replace", Path: "project/\xff", Grants: []record.Holder{{ID: "g1", Name: "agent"}}}},
		{Number: 8, Entry: record.Entry{Format: 1, At: 1795436004581, Kind: record.Ended, Of: 7, Result: record.Failed, Code: vfs.Quota}},
	}
	check.OK(t, f.Send(t.Context(), entries))
	if len(got) != 2 || path != "/v1/logs" || service != "capd" {
		t.Fatalf("%s of %q got %v", path, service, got)
	}
	if r := got[0]; r.EventName != "capd.intent" || r.TimeUnixNano != 1795436004580e6 || r.SeverityNumber != logs.SeverityNumber_SEVERITY_NUMBER_INFO ||
		attributes(r)["capd.operation"] != "replace" || attributes(r)["capd.path"] == "" || attributes(r)["capd.guest"] != "agent" {
		t.Errorf("%v", r)
	}
	if r := got[1]; r.EventName != "capd.outcome" || r.SeverityNumber != logs.SeverityNumber_SEVERITY_NUMBER_WARN || attributes(r)["error.type"] != "quota" ||
		r.Body.GetStringValue() != `{"n":8,"v":1,"at":1795436004581,"kind":"outcome","of":7,"result":"failed","code":"quota"}` {
		t.Errorf("%v", r)
	}
	got = nil
	for _, status = range []int{http.StatusServiceUnavailable, http.StatusBadRequest} {
		if err := f.Send(t.Context(), entries); err == nil {
			t.Errorf("after %d nothing is wrong", status)
		}
	}
	status, got = http.StatusOK, nil
	check.OK(t, f.Send(t.Context(), entries[:1]))
	if len(got) != 1 {
		t.Errorf("what failed before is sent again: %v", got)
	}
}

func attributes(r *logs.LogRecord) map[string]string {
	all := map[string]string{}
	for _, a := range r.Attributes {
		all[a.Key] = a.Value.GetStringValue()
	}
	return all
}

func TestOpenRefuses(t *testing.T) {
	for _, address := range []string{"", "collector:4318", "ftp://collector", "https://", "http://a b", "/v1/logs"} {
		_, err := Open(address)
		check.Is(t, address, err, vfs.Invalid)
	}
}

package metrics

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"net/http"
	"strings"
)

// Handler serves what gather returns at /metrics. If token is not "", a request needs it as its bearer (RFC 6750).
func Handler(token string, gather func(context.Context) ([]Metric, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		if !allowed(token, r) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "it needs the token of --metrics-token as its bearer", http.StatusUnauthorized)
			return
		}
		all, err := gather(r.Context())
		if err != nil {
			http.Error(w, "the host cannot be measured now", http.StatusServiceUnavailable)
			return
		}
		var text bytes.Buffer // what cannot be printed is no half answer
		if err := Write(&text, all); err != nil {
			http.Error(w, "the host cannot be measured now", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(text.Bytes()) // it fails if the other has gone
	})
	return mux
}

// allowed compares sums, so that the time it takes does not tell how much of a token is right.
func allowed(token string, r *http.Request) bool {
	if token == "" {
		return true
	}
	kind, got, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	want, is := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(strings.TrimSpace(got)))
	return strings.EqualFold(kind, "Bearer") && subtle.ConstantTimeCompare(want[:], is[:]) == 1
}

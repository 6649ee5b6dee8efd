package web

import (
	"io"
	"net/http"
	"time"
)

// stall is how long a client may take (only tests change it) to send the body of a request, and to take each part of the answer.
var stall = 30 * time.Second

// paced is an answer that ends the connection when its client does not take it.
type paced struct {
	http.ResponseWriter
	control *http.ResponseController
}

// pace returns what answers r, whose body must come in time.
func pace(w http.ResponseWriter, r *http.Request) *paced {
	p := &paced{w, http.NewResponseController(w)}
	_ = p.control.SetWriteDeadline(time.Now().Add(stall))
	if r.Body != nil && r.Body != http.NoBody {
		_ = p.control.SetReadDeadline(time.Now().Add(stall)) // a test's writer has none
		r.Body = &timely{r.Body, p.control}
	}
	return p
}

// Write implements [http.ResponseWriter].
func (p *paced) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(stall))
	return p.ResponseWriter.Write(b)
}

// Flush implements [http.Flusher].
func (p *paced) Flush() {
	_ = p.control.SetWriteDeadline(time.Now().Add(stall))
	_ = p.control.Flush()
}

// Unwrap is for [http.ResponseController].
func (p *paced) Unwrap() http.ResponseWriter { return p.ResponseWriter }

// timely is the body of a request. At its end the connection may be silent for as long as it likes.
type timely struct {
	io.ReadCloser
	control *http.ResponseController
}

func (t *timely) Read(b []byte) (int, error) {
	n, err := t.ReadCloser.Read(b)
	if err == io.EOF {
		_ = t.control.SetReadDeadline(time.Time{})
	}
	return n, err
}

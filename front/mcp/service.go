package mcp

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"capd/client"
	"capd/front/roots"
	"capd/version"
	"capd/vfs"
)

// Options are what a Service needs besides a directory.
type Options struct {
	// Roots are what agents are shown. None means one, /workspace, which is the directory.
	Roots roots.Roots
	// Patience is how long a call that changes something waits for an approval; 0 is 45 s.
	Patience time.Duration
	// Configure and Extend, if they are not nil, are for a host that offers agents more than a directory: Configure changes what the library's
	// server is made with, and Extend adds to the server.
	Configure func(*sdk.ServerOptions)
	Extend    func(*sdk.Server)

	progress time.Duration // how often clients are told of progress; 0 is the usual
}

// Service serves one capability to agents. It is safe for concurrent use.
type Service struct{ *service }

// service is what tools see.
type service struct {
	roots    shown
	patience time.Duration
	progress time.Duration
	server   *sdk.Server

	ready chan struct{} // closed when the next three are set
	conn  *client.Conn
	dir   *client.Dir
	err   error // why there is nothing to serve

	mu     sync.Mutex
	rights client.Rights // for which tools are listed
}

// New returns a Service for what conn stands for, which is a directory. The caller closes conn after the Service.
func New(ctx context.Context, conn *client.Conn, o Options) (*Service, error) {
	d := conn.Dir(ctx)
	has, err := d.Rights(ctx)
	if err != nil {
		d.Close()
		return nil, err
	}
	s := newService(o, has)
	s.conn, s.dir = conn, d
	close(s.ready)
	return s, nil
}

// Begin is New for a host that is still to start: clients are greeted meanwhile, and their calls wait. open returns a connection to it. likely are the
// rights that the capability will have; tools are listed for these until the others are known.
func Begin(ctx context.Context, o Options, likely client.Rights, open func(context.Context) (*client.Conn, error)) *Service {
	s := newService(o, likely)
	go func() {
		defer close(s.ready)
		if s.conn, s.err = open(ctx); s.err == nil {
			s.dir = s.conn.Dir(ctx)
			_ = s.look(ctx)
		}
	}()
	return s
}

func newService(o Options, has client.Rights) *Service {
	s := &service{roots: shown{o.Roots}, patience: o.Patience, progress: cmp.Or(o.progress, progress), ready: make(chan struct{}), rights: has}
	if len(o.Roots) == 0 {
		s.roots = shown{roots.Roots{{Shown: "/workspace"}}}
	}
	if s.patience == 0 {
		s.patience = 45 * time.Second
	}
	with := &sdk.ServerOptions{
		Instructions: instructions,
		Capabilities: capabilities(),
		Logger:       slog.New(slog.DiscardHandler),
		PageSize:     len(tools),
	}
	if o.Configure != nil {
		o.Configure(with)
	}
	s.server = sdk.NewServer(&sdk.Implementation{Name: "capd", Title: "capd", Version: version.Text()}, with)
	s.server.AddReceivingMiddleware(s.unlisted, warned)
	s.list(tools)
	if o.Extend != nil {
		o.Extend(s.server)
	}
	return &Service{s}
}

// capabilities are what the server can do besides what follows from its tools.
func capabilities() *sdk.ServerCapabilities {
	return &sdk.ServerCapabilities{
		Logging: &sdk.LoggingCapabilities{}, //nolint:staticcheck // there is no other way to tell clients of the revisions before 2026-07-28 something
		Tools:   &sdk.ToolCapabilities{ListChanged: true},
	}
}

// wait returns when there is something to serve, or why there is not.
func (s *service) wait(ctx context.Context) error {
	select {
	case <-s.ready:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

const instructions = "Files of one directory, with versions. Read before you write, and pass the version that you have read as ifVersion to be sure that nobody else has changed the file. " +
	"A refusal begins with a code and says what to do next. history and undo take back what you did."

// Close ends the Service.
func (s *Service) Close() {
	<-s.ready
	if s.dir != nil {
		s.dir.Close()
	}
}

// listed reports whether a tool is of use with the rights has.
func (t *tool) listed(has client.Rights) bool { return t.needs&^has == 0 }

// list lists those of all that are of use.
func (s *service) list(all []tool) {
	for i := range all {
		if t := &all[i]; t.listed(s.rights) {
			s.server.AddTool(t.listing(), s.serve(t))
		}
	}
}

// unlisted answers calls of tools that are not listed, since a right is missing or was taken: with the refusal of the host rather than
// with an error of the protocol, which says that there is no such tool.
func (s *service) unlisted(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		call, ok := r.(*sdk.CallToolRequest)
		if !ok || method != "tools/call" {
			return next(ctx, method, r)
		}
		t := toolNamed[call.Params.Name]
		s.mu.Lock()
		listed := t == nil || t.listed(s.rights)
		s.mu.Unlock()
		if listed {
			return next(ctx, method, r)
		}
		return s.call(ctx, t, call.Params.Arguments).result(), nil
	}
}

// warned has clients that set no level for messages told what [service.tell] tells: the library tells those nothing.
func warned(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		out, err := next(ctx, method, r)
		if ss, ok := r.GetSession().(*sdk.ServerSession); ok && method == "notifications/initialized" {
			_, _ = next(ctx, "logging/setLevel", &sdk.ServerRequest[*sdk.SetLoggingLevelParams]{Session: ss, Params: &sdk.SetLoggingLevelParams{Level: "warning"}}) //nolint:staticcheck // see capabilities
		}
		return out, err
	}
}

// listing returns t as clients see it.
func (t *tool) listing() *sdk.Tool {
	return &sdk.Tool{Name: t.name, Title: t.title, Description: t.about, InputSchema: t.inputSchema(), OutputSchema: t.outputSchema(), Annotations: t.annotations()}
}

// Watch follows the rights of the capability until ctx ends: a lock takes the tools that write from the list, and clients are told. When the
// capability has ended it calls ended, if that is not nil, and returns.
func (s *Service) Watch(ctx context.Context, every time.Duration, ended func(error)) {
	if s.wait(ctx) != nil {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.conn.Done():
		case <-tick.C:
		}
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			if ended != nil {
				ended(err)
			}
			return
		}
	}
}

// look has tools listed by the rights that there are now. It returns why the capability has ended, or nil.
func (s *service) look(ctx context.Context) error {
	has, err := s.dir.Rights(ctx)
	switch vfs.CodeOf(err) {
	case "":
	case vfs.Busy, vfs.Limit:
		return nil
	default:
		if lost := s.conn.Err(); lost != nil {
			err = lost
		}
		s.tell(ctx, s.roots.refused(err).text)
		return err
	}
	s.mu.Lock()
	was := s.rights
	s.rights = has
	s.mu.Unlock()
	if was == has {
		return nil
	}
	var gone []string
	var come []tool
	for _, t := range tools {
		switch before, now := t.listed(was), t.listed(has); {
		case before && !now:
			gone = append(gone, t.name)
		case now && !before:
			come = append(come, t)
		}
	}
	s.server.RemoveTools(gone...) // each tells the clients
	s.list(come)
	return nil
}

// tell tells every client something.
func (s *service) tell(ctx context.Context, text string) {
	for ss := range s.server.Sessions() {
		_ = ss.Log(ctx, &sdk.LoggingMessageParams{Level: "warning", Logger: "capd", Data: text}) //nolint:staticcheck // see capabilities
	}
}

// serve returns the handler of t for the protocol's library.
func (s *service) serve(t *tool) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		if token := r.Params.GetProgressToken(); token != nil {
			defer s.telling(ctx, func(ctx context.Context, n int) {
				_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(n), Message: waiting})
			})()
		}
		a := s.call(ctx, t, r.Params.Arguments)
		return a.result(), nil
	}
}

// call runs a tool.
func (s *service) call(ctx context.Context, t *tool, args []byte) answer {
	waits, cancel := ctx, func() {}
	if !slices.Contains([]string{reads, gives}, t.hints) {
		waits, cancel = context.WithTimeout(ctx, s.patience)
	}
	defer cancel()
	if name := t.missing(args); name != "" {
		return s.roots.refused(vfs.Errorf(vfs.Invalid, "%s needs the argument %s", t.name, name))
	}
	if err := s.wait(waits); err != nil {
		if waits.Err() == nil { // it may name paths of the host
			err = vfs.Errorf(vfs.CodeOf(err), "the host has not started; whoever runs it finds why in its output")
		}
		return s.roots.refused(err)
	}
	a, err := t.run(waits, s, args)
	if err == nil && len(a.text) > maxAnswer/6 && encodedSize(a.text) > maxAnswer { // most texts are short
		err = vfs.Errorf(vfs.TooLarge, "as JSON the answer would have more than the %d bytes of one; ask for less, or use read_media_file for what is no text", maxAnswer)
	}
	if err == nil {
		return a
	}
	if waits.Err() != nil && ctx.Err() == nil {
		return answer{failed: true, text: string(vfs.AskTimeout) + ": this has not been approved within " + s.patience.String() +
			". Tell whoever runs the host (" + s.request(ctx, t, args) + "), and make the same call again when it is approved"}
	}
	return s.roots.refused(err)
}

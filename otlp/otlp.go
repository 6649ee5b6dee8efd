// Package otlp sends the record of a host to an OpenTelemetry collector, as logs over HTTP (OTLP).
package otlp

import (
	"context"
	"encoding/json"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/log"
	sdk "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/resource"

	"capd/record"
	"capd/version"
	"capd/vfs"
)

// timeout is how long a collector may take to answer.
const timeout = 10 * time.Second

// Forwarder sends entries of a record. It implements [record.Forwarder]. One Send runs at a time.
type Forwarder struct {
	exporter *otlploghttp.Exporter
	provider *sdk.LoggerProvider
	logger   log.Logger
	batch    batch
}

// Open returns a Forwarder to the collector at address: http://HOST:PORT or https://HOST:PORT, with the path /v1/logs if it has none.
// Headers, such as one with a token, come from the environment variable OTEL_EXPORTER_OTLP_HEADERS. Nothing is sent yet.
func Open(address string) (record.Forwarder, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, vfs.Errorf(vfs.Invalid, "%q is no URL of an OpenTelemetry collector; write https://HOST:4318", address)
	}
	if u.Path == "" || u.Path == "/" {
		u.Path = "/v1/logs"
	}
	f := &Forwarder{}
	f.exporter, err = otlploghttp.New(context.Background(), otlploghttp.WithEndpointURL(u.String()), otlploghttp.WithTimeout(timeout),
		otlploghttp.WithRetry(otlploghttp.RetryConfig{})) // record.Log tries again
	if err != nil {
		return nil, err
	}
	about := resource.NewSchemaless(attribute.String("service.name", "capd"), attribute.String("service.version", version.Text()))
	f.provider = sdk.NewLoggerProvider(sdk.WithResource(about), sdk.WithProcessor(&f.batch))
	f.logger = f.provider.Logger("capd/record")
	return f, nil
}

// Send implements [record.Forwarder].
func (f *Forwarder) Send(ctx context.Context, entries []record.Numbered) error {
	f.batch.records = nil
	for _, e := range entries {
		r, err := recordOf(e)
		if err != nil {
			return err
		}
		f.logger.Emit(ctx, r)
	}
	return f.exporter.Export(ctx, f.batch.records)
}

// Close implements [record.Forwarder].
func (f *Forwarder) Close(ctx context.Context) error { return f.exporter.Shutdown(ctx) }

// recordOf returns e as a log record. Its body is the JSON that capd audit --json prints.
func recordOf(e record.Numbered) (r log.Record, err error) {
	body, err := json.Marshal(e)
	if err != nil {
		return r, err
	}
	r.SetTimestamp(time.UnixMilli(e.At))
	r.SetEventName("capd." + e.Kind.String())
	r.SetBody(attribute.StringValue(string(body)))
	r.SetSeverity(log.SeverityInfo)
	if e.Kind == record.Denied || e.Result == record.Failed {
		r.SetSeverity(log.SeverityWarn)
	}
	r.SetSeverityText(r.Severity().String())
	r.AddAttributes(attribute.Int64("capd.record.number", e.Number))
	text := func(key, value string) {
		if value != "" {
			r.AddAttributes(attribute.String(key, value))
		}
	}
	if len(e.Grants) > 0 {
		text("capd.grant.id", e.Grants[0].ID)
		text("capd.guest", e.Grants[0].Name)
	}
	text("capd.operation", e.Op)
	text("capd.path", vfs.Printable(string(e.Path)))
	text("capd.result", string(e.Result))
	text("error.type", string(e.Code))
	if e.Of != 0 {
		r.AddAttributes(attribute.Int64("capd.record.of", e.Of))
	}
	return r, nil
}

// batch is a processor that gathers what is sent together. The SDK's own drops records when a collector is slow.
type batch struct{ records []sdk.Record }

// OnEmit implements sdk.Processor.
func (b *batch) OnEmit(_ context.Context, r *sdk.Record) error {
	b.records = append(b.records, r.Clone())
	return nil
}

// Enabled implements sdk.Processor.
func (b *batch) Enabled(context.Context, sdk.EnabledParameters) bool { return true }

// Shutdown implements sdk.Processor.
func (b *batch) Shutdown(context.Context) error { return nil }

// ForceFlush implements sdk.Processor.
func (b *batch) ForceFlush(context.Context) error { return nil }

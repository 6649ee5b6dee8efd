// An agent's session with capd by the official TypeScript clients: node session.mjs v1|v2 stdio CAPD LOCATOR, or v1|v2 http URL SECRET. It prints a line
// for each thing that it sees. After "waiting" the host is to revoke what it has.
const [which, how, at, secret] = process.argv.slice(2);
const say = (what, text) => console.log(`${what}: ${text}`);

const about = { name: "session", version: "1" };
let client, Stdio, HTTP, told;
if (which === "v1") {
  const { Client } = await import("@modelcontextprotocol/sdk/client/index.js");
  ({ StdioClientTransport: Stdio } = await import("@modelcontextprotocol/sdk/client/stdio.js"));
  ({ StreamableHTTPClientTransport: HTTP } = await import("@modelcontextprotocol/sdk/client/streamableHttp.js"));
  const { LoggingMessageNotificationSchema } = await import("@modelcontextprotocol/sdk/types.js");
  client = new Client(about);
  told = new Promise((done) => {
    client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => {
      say("told", n.params.data);
      done();
    });
  });
} else {
  const sdk = await import("@modelcontextprotocol/client");
  ({ StdioClientTransport: Stdio } = await import("@modelcontextprotocol/client/stdio"));
  HTTP = sdk.StreamableHTTPClientTransport;
  client = new sdk.Client(about, { versionNegotiation: { mode: { pin: "2026-07-28" } } });
}
const transport = how === "stdio"
  ? new Stdio({ command: at, args: ["mcp", "--cap", secret], stderr: "inherit" })
  : new HTTP(new URL(at), { requestInit: { headers: { Authorization: `Bearer ${secret}` } } });
await client.connect(transport);
const speaks = which === "v1" ? transport.protocolVersion ?? transport._protocolVersion : client.getNegotiatedProtocolVersion();
say("connected", `${client.getServerVersion().name} ${speaks ?? "2025-11-25"}`);
const { tools } = await client.listTools();
say("tools", tools.map((t) => t.name).sort().join(" "));

const call = async (name, args) => {
  try {
    return await client.callTool({ name, arguments: args });
  } catch (e) {
    return { isError: true, content: [{ type: "text", text: `${e}` }] };
  }
};
const text = (r) => (r.isError ? "refused: " : "") + r.content[0].text.trim();
const read = await call("read_text_file", { path: "a.txt" });
say("read", text(read));
const version = read.structuredContent.version;
say("edit", text(await call("edit_file", { path: "/workspace/a.txt", ifVersion: version, edits: [{ oldText: "hello", newText: "changed" }] })).split("\n")[0]);
say("edit again", text(await call("edit_file", { path: "a.txt", ifVersion: version, edits: [{ oldText: "changed", newText: "lost" }] })));
say("grep", text(await call("grep", { pattern: "chan.ed" })));
say("undo", text(await call("undo", {})));
say("reread", text(await call("read_text_file", { path: "a.txt" })));
say("outside", text(await call("read_text_file", { path: "/etc/passwd" })));
const { cursor } = (await call("changes", {})).structuredContent;
const waits = call("changes", { cursor, waitSeconds: 50 });
say("waiting", "");
const begun = Date.now();
say("ended", text(await waits));
say("after", `${Date.now() - begun < 40000 ? "at once" : "late"}`);
say("read again", text(await call("read_text_file", { path: "a.txt" })));
await told;
process.exit(0);

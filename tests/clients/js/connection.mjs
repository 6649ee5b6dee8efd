// A connection of capnp-es to a capd host, and the parts of a locator. It is to be copied beside the program that uses it.

import { connect } from "node:net";
import { connect as connectTLS } from "node:tls";
import { createHash } from "node:crypto";
import { Conn, Message } from "capnp-es";
import { Message as RPCMessage } from "capnp-es/capnp/rpc";

// parseLocator returns where a locator leads, and its secret.
export function parseLocator(text) {
  const [, key, address, path, secret] = /^capnp:\/\/([^@]+)@([^/]*)(\/.*)?\/([A-Za-z0-9_-]{43})$/.exec(text) ?? [];
  if (!secret) throw new Error("this is no locator");
  const bytes = new Uint8Array(Buffer.from(secret, "base64url"));
  if (key === "insecure") return { socket: decodeURIComponent(path), secret: bytes };
  const [, host, port] = /^\[?(.*?)\]?:(\d+)$/.exec(address);
  return { host, port: Number(port), digest: key.replace(/^sha-256:/, ""), secret: bytes };
}

// open connects to the host of a locator. Over TLS nothing is sent before the host's key is the one that the locator names.
export async function open(locator) {
  if (locator.socket) {
    const socket = connect(locator.socket);
    await new Promise((resolve, reject) => socket.once("connect", resolve).once("error", reject));
    return new Connection(socket);
  }
  const { host, port, digest } = locator;
  const socket = connectTLS({ host, port, ALPNProtocols: ["capnp"], minVersion: "TLSv1.3", rejectUnauthorized: false });
  await new Promise((resolve, reject) => socket.once("secureConnect", resolve).once("error", reject));
  const key = socket.getPeerX509Certificate().publicKey.export({ type: "spki", format: "der" });
  if (createHash("sha256").update(key).digest("base64url") !== digest) {
    socket.destroy();
    throw new Error("this is another host than the locator names");
  }
  return new Connection(socket);
}

// code returns the code of a refusal by the host, or undefined for another error, such as a lost connection.
export function code(error) {
  return /capd: ([A-Za-z]+)/.exec(error?.message)?.[1];
}

// Connection is a Conn whose calls fail when the connection ends: those of capnp-es alone wait for ever.
export class Connection extends Conn {
  constructor(socket) {
    const transport = new Transport(socket);
    super(transport);
    this.onError = (error) => this.ended(error ?? new Error("the connection has ended"));
    transport.onEnd = this.onError;
  }

  ended(error) {
    for (const question of this.questions) {
      if (question) this.popQuestion(question.id)?.reject(error);
    }
  }
}

// Transport keeps the messages that came until they are received. The one of capnp-es drops a message that comes while another is handled.
class Transport {
  constructor(socket) {
    this.socket = socket;
    this.bytes = Buffer.alloc(0);
    this.messages = [];
    socket.on("data", (piece) => this.arrived(piece));
    socket.on("error", (error) => this.end(error));
    socket.on("close", () => this.end(new Error("the connection has ended")));
  }

  arrived(piece) {
    this.bytes = this.bytes.length ? Buffer.concat([this.bytes, piece]) : piece;
    for (;;) {
      const size = messageSize(this.bytes);
      if (size === undefined || this.bytes.length < size) break;
      const message = new Message(new Uint8Array(this.bytes.subarray(0, size)).buffer, false).getRoot(RPCMessage);
      this.bytes = this.bytes.subarray(size);
      if (this.waiting) {
        this.waiting.resolve(message);
        this.waiting = undefined;
      } else {
        this.messages.push(message);
      }
    }
  }

  end(error) {
    if (this.error) return;
    this.error = error;
    this.waiting?.reject(error);
    this.onEnd?.(error);
  }

  sendMessage(message) {
    this.socket.write(new Uint8Array(message.segment.message.toArrayBuffer()));
  }

  recvMessage() {
    if (this.messages.length) return Promise.resolve(this.messages.shift());
    if (this.error) return Promise.reject(this.error);
    return new Promise((resolve, reject) => (this.waiting = { resolve, reject }));
  }

  close() {
    this.socket.end();
  }
}

// messageSize returns how many bytes the first message in bytes has, or undefined if its header is not there yet.
function messageSize(bytes) {
  if (bytes.length < 4) return undefined;
  const segments = bytes.readUInt32LE(0) + 1;
  const header = (segments + (segments % 2 ? 1 : 2)) * 4;
  if (bytes.length < header) return undefined;
  let size = header;
  for (let i = 0; i < segments; i++) size += bytes.readUInt32LE(4 + 4 * i) * 8;
  return size;
}

// The contender in C++: Cap'n Proto's own implementation, as a server and as a client.
//
//	contender server TABLE SOCKET
//	contender client TABLE SOCKET
//
// The client reads commands from its standard input, "run OP SIZE OUTSTANDING MILLISECONDS" a line, and answers each
// with a line of JSON, as the Go contenders do.

#include <capnp/rpc-twoparty.h>
#include <fcntl.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <nmmintrin.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "bench.capnp.h"

namespace {

constexpr size_t streamBytes = 16 << 20;
constexpr size_t maxSamples = 1 << 17;
constexpr int offsets = 16;
constexpr int chainCalls = 5;

// CRC-32C by the processor's instruction, three streams at a time, whose sums are joined by tables: the instruction
// takes three cycles, and one can begin in each.
constexpr size_t block = 1024;

uint32_t serial(uint32_t crc, const kj::byte* p, size_t n) {
  uint64_t c = crc;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t v;
    memcpy(&v, p, 8);
    c = _mm_crc32_u64(c, v);
  }
  for (; n > 0; p++, n--) c = _mm_crc32_u8(c, *p);
  return c;
}

struct Shift { // what block zeros do to a sum
  uint32_t of[4][256];
  Shift() {
    static const kj::byte zeros[block] = {};
    for (int i = 0; i < 4; i++) {
      for (uint32_t b = 0; b < 256; b++) of[i][b] = serial(b << 8 * i, zeros, block);
    }
  }
  uint32_t operator()(uint32_t c) const {
    return of[0][c & 255] ^ of[1][c >> 8 & 255] ^ of[2][c >> 16 & 255] ^ of[3][c >> 24];
  }
};

uint32_t add(uint32_t sum, kj::ArrayPtr<const kj::byte> bytes) {
  static const Shift shift;
  uint32_t crc = ~sum;
  const kj::byte* p = bytes.begin();
  size_t n = bytes.size();
  for (; n >= 3 * block; p += 3 * block, n -= 3 * block) {
    uint64_t a = crc, b = 0, c = 0;
    for (size_t i = 0; i < block; i += 8) {
      uint64_t x, y, z;
      memcpy(&x, p + i, 8);
      memcpy(&y, p + block + i, 8);
      memcpy(&z, p + 2 * block + i, 8);
      a = _mm_crc32_u64(a, x);
      b = _mm_crc32_u64(b, y);
      c = _mm_crc32_u64(c, z);
    }
    crc = shift(shift(a) ^ b) ^ c;
  }
  return ~serial(crc, p, n);
}

uint32_t sum(kj::ArrayPtr<const kj::byte> bytes) { return add(0, bytes); }

class SinkServer final : public Sink::Server {
 public:
  kj::Promise<void> write(WriteContext c) override {
    total = add(total, c.getParams().getData());
    return kj::READY_NOW;
  }
  kj::Promise<void> done(DoneContext c) override {
    c.getResults().setSum(total);
    return kj::READY_NOW;
  }

 private:
  uint32_t total = 0;
};

class BenchServer final : public Bench::Server {
 public:
  BenchServer(kj::ArrayPtr<const kj::byte> table, int fd) : table(table), fd(fd) {}

  kj::Promise<void> echo(EchoContext c) override {
    c.getResults().setData(c.getParams().getData());
    return kj::READY_NOW;
  }
  kj::Promise<void> read(ReadContext c) override {
    auto p = c.getParams();
    c.getResults(capnp::MessageSize{p.getLength() / 8 + 8, 0}).setData(table.slice(p.getOffset(), p.getOffset() + p.getLength()));
    return kj::READY_NOW;
  }
  kj::Promise<void> write(WriteContext c) override {
    c.getResults().setSum(sum(c.getParams().getData()));
    return kj::READY_NOW;
  }
  kj::Promise<void> next(NextContext c) override {
    c.getResults().setNext(kj::heap<BenchServer>(table, fd));
    return kj::READY_NOW;
  }
  kj::Promise<void> sink(SinkContext c) override {
    c.getResults().setSink(kj::heap<SinkServer>());
    return kj::READY_NOW;
  }
  kj::Promise<void> pread(PreadContext c) override {
    auto p = c.getParams();
    auto data = c.getResults(capnp::MessageSize{p.getLength() / 8 + 8, 0}).initData(p.getLength());
    ssize_t n;
    KJ_SYSCALL(n = ::pread(fd, data.begin(), data.size(), p.getOffset()));
    KJ_REQUIRE(n == static_cast<ssize_t>(data.size()), "a short read");
    return kj::READY_NOW;
  }

 private:
  kj::ArrayPtr<const kj::byte> table;
  int fd;
};

using Clock = std::chrono::steady_clock;

struct Piece {
  uint32_t offset;
  kj::ArrayPtr<const kj::byte> bytes;
  uint32_t sum;
};

class Client {
 public:
  Client(Bench::Client bench, kj::ArrayPtr<const kj::byte> table) : bench(kj::mv(bench)), table(table) { samples.reserve(maxSamples); }

  std::string run(kj::WaitScope& scope, const std::string& op, size_t size, int outstanding, int ms) {
    cut(size);
    each = find(op, size);
    if (!each) return "{\"err\":\"unsupported\"}";
    samples.clear();
    turn = 0;
    count = 0;
    (*each)(pieces[0]).wait(scope);  // warms up
    timed = outstanding == 1;
    auto start = Clock::now();
    end = start + std::chrono::milliseconds(ms);
    kj::Vector<kj::Promise<void>> workers;
    for (int i = 0; i < outstanding; i++) workers.add(worker(Clock::now()));
    kj::joinPromises(workers.releaseAsArray()).wait(scope);
    int64_t ns = std::chrono::nanoseconds(Clock::now() - start).count();
    int64_t p50 = 0, p99 = 0;
    if (timed && !samples.empty()) {
      std::sort(samples.begin(), samples.end());
      p50 = samples[samples.size() / 2];
      p99 = samples[samples.size() * 99 / 100];
    }
    return kj::str("{\"n\":", count, ",\"ns\":", ns, ",\"p50\":", p50, ",\"p99\":", p99, "}").cStr();
  }

 private:
  using Operation = kj::Function<kj::Promise<void>(const Piece&)>;

  Bench::Client bench;
  kj::ArrayPtr<const kj::byte> table;
  std::vector<Piece> pieces;
  kj::Maybe<Operation> found;
  Operation* each = nullptr;
  std::vector<int64_t> samples;
  size_t turn = 0;
  int64_t count = 0;
  bool timed = false;
  Clock::time_point end;

  void cut(size_t size) {
    pieces.clear();
    for (int i = 0; i < offsets; i++) {
      size_t off = i * (table.size() - size) / offsets;
      auto b = table.slice(off, off + size);
      pieces.push_back({static_cast<uint32_t>(off), b, sum(b)});
    }
  }

  kj::Promise<void> worker(Clock::time_point last) {
    if (last >= end) return kj::READY_NOW;
    return (*each)(pieces[turn++ % offsets]).then([this, last] {
      auto now = Clock::now();
      count++;
      if (timed && samples.size() < maxSamples) samples.push_back(std::chrono::nanoseconds(now - last).count());
      return worker(now);
    });
  }

  static void check(const Piece& p, kj::ArrayPtr<const kj::byte> got) {
    KJ_REQUIRE(got.size() == p.bytes.size() && sum(got) == p.sum, "the payload did not arrive as it was");
  }

  static kj::Promise<void> echo(Bench::Client to, const Piece& p) {
    auto r = to.echoRequest(capnp::MessageSize{p.bytes.size() / 8 + 8, 0});
    r.setData(p.bytes);
    return r.send().then([&p](auto&& got) { check(p, got.getData()); });
  }

  kj::Promise<void> inSequence(Bench::Client at, int left, const Piece& p) {
    if (left == 0) return echo(at, p);
    return at.nextRequest().send().then([this, left, &p](auto&& got) { return inSequence(got.getNext(), left - 1, p); });
  }

  kj::Promise<void> chunks(Sink::Client sink, size_t sent, size_t size) {
    if (sent >= streamBytes) return kj::READY_NOW;
    auto r = sink.writeRequest(capnp::MessageSize{size / 8 + 8, 0});
    size_t off = sent % table.size();
    r.setData(table.slice(off, off + size));
    return r.send().then([this, sink, sent, size]() mutable { return chunks(kj::mv(sink), sent + size, size); });
  }

  Operation* find(const std::string& op, size_t size) {
    auto set = [this](Operation o) { return &found.emplace(kj::mv(o)); };
    if (op == "echo") return set([this](const Piece& p) { return echo(bench, p); });
    if (op == "read") {
      return set([this](const Piece& p) {
        auto r = bench.readRequest();
        r.setOffset(p.offset);
        r.setLength(p.bytes.size());
        return r.send().then([&p](auto&& got) { check(p, got.getData()); });
      });
    }
    if (op == "pread") {
      return set([this](const Piece& p) {
        auto r = bench.preadRequest();
        r.setOffset(p.offset);
        r.setLength(p.bytes.size());
        return r.send().then([&p](auto&& got) { check(p, got.getData()); });
      });
    }
    if (op == "write") {
      return set([this](const Piece& p) {
        auto r = bench.writeRequest(capnp::MessageSize{p.bytes.size() / 8 + 8, 0});
        r.setData(p.bytes);
        return r.send().then([&p](auto&& got) { KJ_REQUIRE(got.getSum() == p.sum, "the payload did not arrive as it was"); });
      });
    }
    if (op == "chain") {
      return set([this](const Piece& p) {
        Bench::Client at = bench;
        for (int i = 0; i < chainCalls - 1; i++) at = at.nextRequest().send().getNext();
        return echo(at, p);
      });
    }
    if (op == "chainseq") return set([this](const Piece& p) { return inSequence(bench, chainCalls - 1, p); });
    if (op == "stream") {
      uint32_t all = 0;
      for (size_t i = 0; i < streamBytes; i += table.size()) all = add(all, table);
      return set([this, size, all](const Piece&) {
        Sink::Client sink = bench.sinkRequest().send().getSink();
        return chunks(sink, 0, size).then([sink, all]() mutable {
          return sink.doneRequest().send().then([all](auto&& got) { KJ_REQUIRE(got.getSum() == all, "the stream did not arrive as it was"); });
        });
      });
    }
    return nullptr;
  }
};

// buffered asks a socket to hold as much as the other contenders ask theirs to.
kj::Own<kj::AsyncIoStream> buffered(kj::Own<kj::AsyncIoStream>&& stream) {
  int bytes = 512 << 10;
  stream->setsockopt(SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
  return kj::mv(stream);
}

kj::Promise<void> accept(capnp::TwoPartyServer& server, kj::ConnectionReceiver& listener) {
  return listener.accept().then([&server, &listener](kj::Own<kj::AsyncIoStream>&& stream) {
    server.accept(buffered(kj::mv(stream)));
    return accept(server, listener);
  });
}

} // namespace

int main(int argc, char** argv) {
  KJ_REQUIRE(argc == 4, "contender server|client TABLE SOCKET");
  std::string role = argv[1];
  int fd;
  KJ_SYSCALL(fd = open(argv[2], O_RDONLY | O_CLOEXEC));
  struct stat st;
  KJ_SYSCALL(fstat(fd, &st));
  auto table = kj::heapArray<kj::byte>(st.st_size);
  KJ_REQUIRE(pread(fd, table.begin(), table.size(), 0) == st.st_size, "the table cannot be read");

  auto io = kj::setupAsyncIo();
  auto address = io.provider->getNetwork().parseAddress(kj::str("unix:", argv[3])).wait(io.waitScope);
  if (role == "server") {
    capnp::TwoPartyServer server(kj::heap<BenchServer>(table.asPtr(), fd));
    auto listener = address->listen();
    std::cout << "ready" << std::endl;
    // It is told to end by the end of its standard input.
    auto in = io.lowLevelProvider->wrapInputFd(STDIN_FILENO);
    kj::byte b;
    accept(server, *listener).exclusiveJoin(in->tryRead(&b, 1, 1).ignoreResult()).wait(io.waitScope);
    return 0;
  }
  auto stream = buffered(address->connect().wait(io.waitScope));
  capnp::TwoPartyClient rpc(*stream);
  Client client(rpc.bootstrap().castAs<Bench>(), table.asPtr());
  std::cout << "ready" << std::endl;
  std::string verb, op;
  size_t size;
  int outstanding, ms;
  while (std::cin >> verb >> op >> size >> outstanding >> ms) {
    std::cout << client.run(io.waitScope, op, size, outstanding, ms) << std::endl;
  }
}

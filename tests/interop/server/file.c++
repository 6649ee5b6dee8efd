#include "tree.h"

// Bytes serves a File.
class Bytes final : public File::Server, public Served {
 public:
  explicit Bytes(Served s) : Served(kj::mv(s)) {}

  kj::Promise<void> readText(ReadTextContext c) override {
    lease->look();
    if (node->content == "never") {
      say("called");
      c.allowCancellation();
      return kj::Promise<void>(kj::NEVER_DONE).attach(kj::defer([] { say("dropped"); }));
    }
    c.getResults().setText(node->content.c_str());
    c.getResults().setVersion(bytes(versionOf(node->content)));
    return kj::READY_NOW;
  }

  kj::Promise<void> readBytes(ReadBytesContext c) override {
    lease->look();
    if (node->content.size() > 4 << 20) fail("tooLarge", "", "use stream");
    c.getResults().setData(bytes(node->content));
    c.getResults().setVersion(bytes(versionOf(node->content)));
    return kj::READY_NOW;
  }

  kj::Promise<void> read(ReadContext c) override {
    lease->look();
    auto params = c.getParams();
    auto all = bytes(node->content);
    auto begin = kj::min(params.getOffset(), all.size()), end = kj::min(begin + params.getLength(), all.size());
    c.getResults().setData(all.slice(begin, end));
    c.getResults().setEof(end - begin < params.getLength());
    return kj::READY_NOW;
  }

  kj::Promise<void> stream(StreamContext c) override {
    lease->look();
    auto params = c.getParams();
    auto all = bytes(node->content);
    auto begin = kj::min(params.getOffset(), all.size());
    auto end = params.getLength() == 0 ? all.size() : kj::min(begin + params.getLength(), all.size());
    c.getResults().setBytes(end - begin);
    c.allowCancellation();
    return pump(params.getSink(), begin, end);
  }

  kj::Promise<void> writeText(WriteTextContext c) override {
    c.getResults().setVersion(bytes(replace(c.getParams().getIfVersion(), c.getParams().getText().cStr())));
    return kj::READY_NOW;
  }

  kj::Promise<void> writeBytes(WriteBytesContext c) override {
    c.getResults().setVersion(bytes(replace(c.getParams().getIfVersion(), string(c.getParams().getData()))));
    return kj::READY_NOW;
  }

  kj::Promise<void> stage(StageContext c) override {
    lease->change();
    auto self = thisCap();
    c.getResults().setWriter(store.writer(lease, [this, self](std::string content) {
      capnp::MallocMessageBuilder none;
      return replace(none.getRoot<IfVersion>(), kj::mv(content));
    }));
    return kj::READY_NOW;
  }

  kj::Promise<void> write(WriteContext c) override {
    lease->change();
    check(c.getParams().getIfVersion(), "", node);
    auto data = string(c.getParams().getData());
    auto offset = c.getParams().getOffset();
    if (node->content.size() < offset + data.size()) node->content.resize(offset + data.size());
    node->content.replace(offset, data.size(), data);
    return kj::READY_NOW;
  }

  kj::Promise<void> append(AppendContext c) override {
    lease->change();
    check(c.getParams().getIfVersion(), "", node);
    c.getResults().setOffset(node->content.size());
    node->content += string(c.getParams().getData());
    return kj::READY_NOW;
  }

  kj::Promise<void> truncate(TruncateContext c) override {
    lease->change();
    check(c.getParams().getIfVersion(), "", node);
    node->content.resize(c.getParams().getSizeBytes());
    return kj::READY_NOW;
  }

  kj::Promise<void> setAttributes(SetAttributesContext c) override {
    lease->change();
    check(c.getParams().getIfVersion(), "", node);
    auto wanted = c.getParams().getAttributes().getExecutable();
    if (wanted.isSet()) node->executable = wanted.getSet();
    return kj::READY_NOW;
  }

  kj::Promise<void> sync(SyncContext) override {
    lease->look();
    return kj::READY_NOW;
  }

  kj::Promise<void> stat(StatContext c) override {
    lease->look();
    auto stat = c.getResults().initStat();
    describe(stat, "", *node);
    if (c.getParams().getWithVersion()) stat.setVersion(bytes(versionOf(node->content)));
    return kj::READY_NOW;
  }

  kj::Promise<void> readOnly(ReadOnlyContext c) override {
    c.getResults().setFile(store.file(node, below(lease, true)));
    return kj::READY_NOW;
  }

  kj::Promise<void> revocable(RevocableContext c) override {
    auto lent = below(lease);
    c.getResults().setFile(store.file(node, lent));
    c.getResults().setRevoker(store.revoker(lent));
    return kj::READY_NOW;
  }

 private:
  // pump writes what is left to the sink, as fast as the library's window lets it.
  kj::Promise<void> pump(Sink::Client sink, size_t at, size_t end) {
    lease->look();
    if (at == end) return sink.doneRequest().send().ignoreResult();
    auto next = kj::min(at + (256 << 10), end);
    auto write = sink.writeRequest();
    write.setData(bytes(node->content).slice(at, next));
    return write.send().then([this, sink, next, end]() mutable { return pump(kj::mv(sink), next, end); });
  }

  std::string replace(IfVersion::Reader condition, std::string content) {
    lease->change();
    check(condition, "", node);
    node->content = kj::mv(content);
    return versionOf(node->content);
  }
};

File::Client Tree::file(InodePtr node, LeasePtr lease) { return files.add(kj::heap<Bytes>(Served{*this, node, lease})); }

// Staging serves a Writer. It is not served as a stream, so that it sees all that its client has on its way: writes are
// answered when for a moment no more have come, and commit says how many bytes were unanswered at most.
class Staging final : public Writer::Server {
 public:
  Staging(Tree& store, LeasePtr lease, kj::Function<std::string(std::string)> commit)
      : store(store), lease(kj::mv(lease)), done(kj::mv(commit)) {}
  ~Staging() noexcept(false) {
    if (!committed) say("dropped");
  }

  DispatchCallResult dispatchCall(uint64_t interface, uint16_t method,
                                  capnp::CallContext<capnp::AnyPointer, capnp::AnyPointer> context) override {
    if (interface != capnp::typeId<Writer>() || method != 0) return Writer::Server::dispatchCall(interface, method, context);
    lease->change();
    auto data = string(context.getParams().getAs<WriteParams>().getData());
    content += data;
    unanswered += data.size();
    most = kj::max(most, unanswered);
    auto answered = kj::newPromiseAndFulfiller<void>();
    waiting.push_back(kj::mv(answered.fulfiller));
    quiet = store.timer.afterDelay(100 * kj::MILLISECONDS).then([this] {
      for (auto& w : waiting) w->fulfill();
      waiting.clear();
      unanswered = 0;
    }).eagerlyEvaluate(nullptr);
    return {kj::mv(answered.promise), false};
  }

  kj::Promise<void> commit(CommitContext c) override {
    lease->change();
    if (committed || unanswered > 0) fail("invalid", "", "the writer has ended, or writes are under way");
    committed = true;
    say(kj::str("unanswered ", most));
    c.getResults().setVersion(bytes(done(kj::mv(content))));
    return kj::READY_NOW;
  }

 private:
  Tree& store;
  LeasePtr lease;
  kj::Function<std::string(std::string)> done;
  std::string content;
  size_t unanswered = 0, most = 0;
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> waiting;
  kj::Promise<void> quiet = nullptr;
  bool committed = false;
};

Writer::Client Tree::writer(LeasePtr lease, kj::Function<std::string(std::string)> commit) {
  return kj::heap<Staging>(*this, kj::mv(lease), kj::mv(commit));
}

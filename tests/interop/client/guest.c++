#include "guest.h"

#include <map>
#include <set>

#include <kj/encoding.h>

World::World(const char* socket, kj::ArrayPtr<const kj::byte> secret)
    : io(kj::setupAsyncIo()),
      address(io.provider->getNetwork().parseAddress(kj::str("unix:", socket)).wait(io.waitScope)),
      secret(kj::heapArray(secret)) {}

Guest::Guest(World& world) : Guest(world, world.secret) {}

Guest::Guest(World& world, kj::ArrayPtr<const kj::byte> secret)
    : world(world),
      stream(world.address->connect().wait(world.io.waitScope)),
      rpc(*stream),
      session(rpc.bootstrap().castAs<Session>()),
      dir(nullptr),
      file(nullptr) {
  if (secret == nullptr) return;  // a stranger
  auto ref = (*this)(call(session.restoreRequest(), [&](auto& p) { p.setSecret(secret); }));
  switch (ref.getRef().which()) {
    case Ref::DIR: dir = ref.getRef().getDir(); break;
    case Ref::FILE: file = ref.getRef().getFile(); break;
  }
}

// Made at first use: scenarios are registered before main.
static std::map<std::string, std::function<void(Guest&)>>& scenarios() {
  static std::map<std::string, std::function<void(Guest&)>> all;
  return all;
}

static std::set<std::string> methods;

Scenario::Scenario(const char* name, std::function<void(Guest&)> run) { scenarios()[name] = kj::mv(run); }

void used(kj::StringPtr method) { methods.insert(method.cStr()); }

static kj::StringPtr typeName(kj::Exception::Type type) {
  switch (type) {
    case kj::Exception::Type::FAILED: return "failed";
    case kj::Exception::Type::OVERLOADED: return "overloaded";
    case kj::Exception::Type::DISCONNECTED: return "disconnected";
    case kj::Exception::Type::UNIMPLEMENTED: return "unimplemented";
  }
  KJ_UNREACHABLE;
}

void refusedWith(const kj::Exception& e, kj::StringPtr code) {
  std::string text = e.getDescription().cStr();
  size_t mark = text.find("capd: ");
  KJ_ASSERT(mark != std::string::npos, "not an answer of the host's", text.c_str(), code);
  text = text.substr(mark + 6);
  KJ_ASSERT(text.substr(0, text.find(':')) == code.cStr(), "another refusal", text.c_str(), code);
  say("refused", code, typeName(e.getType()));
}

kj::String readText(Guest& guest, File::Client file) {
  return kj::str(guest(call(file.readTextRequest())).getText());
}

void Digest::add(kj::ArrayPtr<const kj::byte> bytes) {
  for (auto b : bytes) sum = (sum ^ b) * 1099511628211u;
  size += bytes.size();
}

void Noise::fill(kj::ArrayPtr<kj::byte> bytes) {
  for (auto& b : bytes) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    b = state;
  }
}

// client SCENARIO SOCKET SECRET: the secret in hexadecimal.
int main(int argc, char** argv) {
  if (argc != 4 || scenarios().count(argv[1]) == 0) {
    fprintf(stderr, "usage: client SCENARIO SOCKET SECRET; scenarios:\n");
    for (auto& s : scenarios()) fprintf(stderr, "%s\n", s.first.c_str());
    return 2;
  }
  KJ_IF_MAYBE(e, kj::runCatchingExceptions([&] {
    World world(argv[2], kj::decodeHex(kj::StringPtr(argv[3])));
    Guest guest(world);
    scenarios()[argv[1]](guest);
    for (auto& m : methods) say("used", m.c_str());
    say("end");
  })) {
    fprintf(stderr, "%s: %s\n", argv[1], kj::str(*e).cStr());
    return 1;
  }
}

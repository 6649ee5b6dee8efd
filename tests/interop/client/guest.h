// A guest of capd's, written with Cap'n Proto's own C++: what its scenarios share.

#pragma once

#include <cstdio>
#include <functional>
#include <string>

#include <capnp/rpc-twoparty.h>
#include <capnp/schema.h>
#include <kj/async-io.h>
#include <kj/debug.h>
#include <kj/encoding.h>

#include "guest.capnp.h"

using namespace capd;

// World is a process's event loop and where its host is.
struct World {
  World(const char* socket, kj::ArrayPtr<const kj::byte> secret);

  kj::AsyncIoContext io;
  kj::Own<kj::NetworkAddress> address;
  kj::Array<kj::byte> secret;
};

// Guest is one connection, and the node that the secret stands for, if there is one.
struct Guest {
  explicit Guest(World& world);
  Guest(World& world, kj::ArrayPtr<const kj::byte> secret);

  // How a promise's outcome is waited for.
  template <typename P>
  auto operator()(P&& promise) { return promise.wait(world.io.waitScope); }

  // turn lets what can happen at once happen.
  void turn() { kj::evalLater([] {}).wait(world.io.waitScope); }

  World& world;
  kj::Own<kj::AsyncIoStream> stream;
  capnp::TwoPartyClient rpc;
  Session::Client session;
  Dir::Client dir;    // the null capability, should it be a file
  File::Client file;  // the null capability, should it be a directory
};

// Scenario is one of the program's: what it does to a guest. It ends the program by an exception when anything is not as
// it should be.
struct Scenario {
  Scenario(const char* name, std::function<void(Guest&)> run);
};

#define SCENARIO(name)                                    \
  static void scenario_##name(Guest& guest);              \
  static Scenario registered_##name(#name, scenario_##name); \
  static void scenario_##name(Guest& guest)

// say prints one line, at once: a word and what it is about.
template <typename... Values>
void say(Values&&... values) {
  kj::StringPtr between = "";
  kj::String line = kj::str();
  ((line = kj::str(line, between, values), between = " "), ...);
  fprintf(stdout, "%s\n", line.cStr());
  fflush(stdout);
}

// used notes that a method was called, by its name in the schema: "Dir.list".
void used(kj::StringPtr method);

// called is the name of the method that has these parameters.
template <typename Params>
std::string called() {
  std::string name = capnp::Schema::from<Params>().getProto().getDisplayName().cStr();  // guest.capnp:Dir.list$Params
  size_t begin = name.find(':') + 1;
  return name.substr(begin, name.find('$') - begin);
}

// call sends a request that fill has filled in, and notes its method.
template <typename Params, typename Results, typename Fill>
capnp::RemotePromise<Results> call(capnp::Request<Params, Results>&& request, Fill&& fill) {
  used(called<Params>().c_str());
  fill(request);
  return request.send();
}

template <typename Params, typename Results>
capnp::RemotePromise<Results> call(capnp::Request<Params, Results>&& request) {
  return call(kj::mv(request), [](auto&) {});
}

template <typename Params, typename Fill>
kj::Promise<void> call(capnp::StreamingRequest<Params>&& request, Fill&& fill) {
  used(called<Params>().c_str());
  fill(request);
  return request.send();
}

// refused waits for a promise that has to fail with a code, and says so with the exception's type.
void refusedWith(const kj::Exception& e, kj::StringPtr code);

template <typename P>
void refused(Guest& guest, kj::StringPtr code, P&& promise) {
  KJ_IF_MAYBE(e, kj::runCatchingExceptions([&] { guest(promise); })) {
    refusedWith(*e, code);
  } else {
    KJ_FAIL_ASSERT("nothing failed", code);
  }
}

// Calls that most scenarios make.
inline File::Client openFile(Dir::Client dir, kj::StringPtr path) {
  return call(dir.openFileRequest(), [&](auto& p) { p.setPath(path); }).getFile();
}
inline Dir::Client subDir(Dir::Client dir, kj::StringPtr path) {
  return call(dir.subDirRequest(), [&](auto& p) { p.setPath(path); }).getDir();
}
inline capnp::RemotePromise<Dir::PutResults> put(Dir::Client dir, kj::StringPtr path, kj::StringPtr text) {
  return call(dir.putRequest(), [&](auto& p) {
    p.setPath(path);
    p.setData(text.asBytes());
  });
}
kj::String readText(Guest& guest, File::Client file);

// Digest is FNV-1a of 64 bits over all the bytes that it was given.
struct Digest {
  void add(kj::ArrayPtr<const kj::byte> bytes);
  uint64_t sum = 14695981039346656037u;
  uint64_t size = 0;
};
inline kj::String KJ_STRINGIFY(const Digest& d) { return kj::str(d.size, " ", kj::hex(d.sum)); }

// Noise is a sequence of bytes in which no two places look alike.
struct Noise {
  void fill(kj::ArrayPtr<kj::byte> bytes);
  uint64_t state = 88172645463325252u;
};

inline kj::String hex(kj::ArrayPtr<const kj::byte> bytes) { return kj::encodeHex(bytes); }

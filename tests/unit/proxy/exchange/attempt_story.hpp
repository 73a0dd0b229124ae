// Runs one attempt as the driver would, without sockets: an AnswerHandler, a pool whose lease it holds, and a client
// that writes down what it is sent.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "balancer/pool.hpp"
#include "metrics/moment.hpp"
#include "metrics/series/shard.hpp"
#include "proxy/exchange/answer_handler.hpp"
#include "tests/unit/proxy/answers.hpp"

namespace weir::proxy::exchange {

using metrics::Api;
using metrics::Outcome;
using story::End;
using story::Reply;

inline Moment at(double seconds) {
  return Moment(std::chrono::hours(1)) + metrics::ticks(std::chrono::duration<double>(seconds));
}

/// The circumstances in which an attempt begins.
struct Circumstances {
  Api api = Api::openai_chat;
  bool stream = true, to_head = false, http_1_1 = true, keep_alive = true;
  bool injected = false, reused = false;
  bool sent = true;  ///< The first byte went out at at(0).
  bool injection_proven = false, keep_errors = false;
  bool leaves_errors = false;  ///< Errors that cannot be kept are left.
  bool comments = false;       ///< The client is to see life while a stream is silent.
  std::uint32_t choices = 1;
  config::Limits limits{};
  std::optional<double> share{};  ///< The pool is split, with this share for a candidate.
};

/// A client's view of an answer. A body that breaks the rules of its framing fails the test.
struct Seen {
  std::string head, body;
  bool whole = false;  ///< The framing came to its end.
};

inline Seen read_chunked(std::string head, std::string_view rest) {
  Seen seen{std::move(head), "", false};
  tests::BodyReader reader(tests::BodyReader::Framing::chunked);
  try {
    rest = reader.read(rest, seen.body);
    EXPECT_TRUE(reader.whole() || reader.between_chunks()) << "a chunk that is not whole: " << seen.body;
  } catch (const tests::NotHttp& error) {
    ADD_FAILURE() << error.what() << ": " << rest;
  }
  seen.whole = reader.whole();
  EXPECT_TRUE(!seen.whole || rest.empty()) << "behind the last chunk: " << rest;
  return seen;
}

/// An attempt, with what the tests ask of it by name.
class Observed : public AnswerHandler {
 public:
  using AnswerHandler::AnswerHandler;
  bool done() const { return state() == State::done; }
  bool committed() const { return accepted(); }
  End end() const { return seen().end; }
  Reply reply() const { return seen().reply; }
  Outcome outcome() const { return seen().verdict.outcome; }
  std::optional<metrics::Phase> phase() const { return seen().verdict.phase; }
  std::optional<metrics::Retry> retry_reason() const { return seen().retry_reason; }
  unsigned status_read() const { return seen().status; }
  std::optional<unsigned> status() const {
    return client().progress().opened ? std::optional(seen().status) : std::nullopt;
  }
  const metrics::record::Answer& answer() const { return replica().answer(); }
  std::uint64_t bytes_out() const { return client().progress().bytes_out; }
  http::ClientFraming client_framing() const { return client().progress().framing; }
  bool cut() const { return client().progress().state == ClientFramer::State::cut; }
  bool client_reusable() const { return client().reusable(); }
  bool upstream_reusable() const { return seen().replica_reusable; }
  balancer::Concurrency concurrency() const { return seen().concurrency; }
  std::optional<Moment> head_at() const { return seen().head; }
  std::optional<metrics::Nanoseconds> overhead_max() const { return seen().overhead_max; }
  std::string take_kept() {
    const auto kept = std::exchange(report().kept, nullptr);
    return kept ? *kept : "";
  }
  balancer::Lease take_lease() { return std::move(report().lease); }

 private:
  const story::AttemptReport& seen() const { return const_cast<Observed*>(this)->report(); }
};

class AttemptStory {
 public:
  explicit AttemptStory(Circumstances with = {}) : setup(with) {
    AnswerHandler::Options options{.replica = {.limits = setup.limits}};
    options.replica.api = options.client.api = setup.api;
    options.replica.stream = setup.stream;
    options.replica.to_head = setup.to_head;
    if (setup.injected) options.replica.asked = metrics::wire::Ask::usage;
    options.replica.choices = setup.choices;
    options.replica.reused = setup.reused;
    options.replica.injection_proven = setup.injection_proven;
    options.replica.received = at(-1);
    options.replica.started = at(-0.5);
    options.client.http_1_1 = setup.http_1_1;
    options.client.keep_alive = setup.keep_alive;
    if (setup.comments) options.client.comments_after = std::chrono::seconds(15);
    options.client.request_id = "id-1";
    options.client.weir_id = "weir-1";
    options.client.replica = "gpu0";
    options.keep_errors = setup.keep_errors;
    balancer::ReplicaSpec spec;
    spec.name = "gpu0";
    pool->set_replicas({&spec, 1}, at(-2));
    if (setup.share) pool->set_split(setup.share, at(-2));
    machine.emplace(options, offer(), shard);
    if (setup.sent) machine->report().sent = at(0);
  }
  AttemptStory(const AttemptStory&) = delete;
  AttemptStory& operator=(const AttemptStory&) = delete;

  /// Checks that nothing of the request is left in the pool's books, however it ended.
  ~AttemptStory() {
    machine.reset();
    const auto load = pool->figures().load(0, at(1'000'000));
    EXPECT_EQ(pool->figures().in_flight(), 0u);
    EXPECT_EQ(load.in_flight, 0u);
    EXPECT_EQ(load.prefill_left, 0u);
    EXPECT_EQ(load.decode_left, 0u);
    EXPECT_EQ(load.resident, 0u);
  }

  balancer::Lease offer() {
    metrics::wire::RequestFacts facts;
    facts.api = setup.api;
    facts.stream = setup.stream;
    facts.model = "m";
    facts.max_tokens = 50;
    facts.prompt_token_ids = 100;
    auto offered = pool->offer({std::make_shared<const metrics::wire::RequestFacts>(facts)}, at(-1));
    return std::move(std::get<balancer::Admitted>(offered).lease);
  }

  /// Plays a read, and writes what it gives before the read's buffer goes.
  AttemptStory& arrives(std::string_view bytes, Moment when = at(1)) {
    const auto buffer = std::make_unique<char[]>(bytes.size() + metrics::measure::StreamMeter::padding);
    std::memcpy(buffer.get(), bytes.data(), bytes.size());
    std::memset(buffer.get() + bytes.size(), '"', metrics::measure::StreamMeter::padding);
    machine->arrived({buffer.get(), bytes.size()}, when, out);
    return written(when);
  }
  /// Plays reads of the given sizes, the last one again and again, until the attempt is over.
  AttemptStory& arrives_split(std::string_view bytes, const std::vector<std::size_t>& sizes) {
    for (std::size_t next = 0; !bytes.empty() && !machine->done();) {
      const auto piece = bytes.substr(0, sizes[std::min(next++, sizes.size() - 1)]);
      arrives(piece);
      bytes.remove_prefix(piece.size());
    }
    return *this;
  }
  AttemptStory& breaks(End how, Moment when = at(2)) {
    machine->replica_ended(how, when, out);
    return written(when);
  }
  AttemptStory& passes(Moment when) {
    machine->deadline_passed(when, out);
    return written(when);
  }

  std::string_view last() const { return last_; }  ///< The output of the last call.

  /// Says in a line how the attempt ended: "relayed, upstream_reset, cut" or "none, timeout, retry first_token".
  /// "client" and "replica" are the connections that may serve again.
  std::string told() const {
    if (!machine->done()) return "under way";
    const auto reply = machine->reply();
    std::string text = reply == Reply::none ? "none" : reply == Reply::error ? "error" : "relayed";
    text += ", " + std::string(name_of(machine->outcome()));
    if (const auto phase = machine->phase()) text += " in " + std::string(name_of(*phase));
    if (const auto retry = machine->retry_reason())
      text += ", retry " + std::string(metrics::retry_names[static_cast<std::size_t>(*retry)]);
    if (machine->cut()) {
      text += ", cut";
    } else if (!client.empty() && seen().whole) {
      text += ", whole";
    }
    if (machine->client_reusable()) text += ", client";
    if (machine->upstream_reusable()) text += ", replica";
    return text;
  }

  Seen seen() const { return seen(client); }
  /// Returns what a client would see that got `bytes`.
  Seen seen(const std::string& bytes) const {
    const auto end = bytes.find("\r\n\r\n");
    if (end == std::string::npos) {
      EXPECT_EQ(bytes, "");
      return {};
    }
    auto head = bytes.substr(0, end + 4);
    if (machine->client_framing() == http::ClientFraming::chunked)
      return read_chunked(std::move(head), std::string_view(bytes).substr(end + 4));
    Seen seen{head, bytes.substr(end + 4), !machine->cut()};
    if (const auto length = head.find("Content-Length: "); length != std::string::npos && !setup.to_head) {
      const auto promised = std::stoul(head.substr(length + 16));
      EXPECT_LE(seen.body.size(), promised);
      seen.whole = seen.body.size() == promised;
    }
    return seen;
  }

  Circumstances setup;
  std::shared_ptr<balancer::Pool> pool = balancer::Pool::make(config::Policy::round_robin, 1);
  metrics::series::ReplicaShard shard;
  std::optional<Observed> machine;
  ClientOutput out;
  std::string client;
  std::vector<unsigned> errors_left;  ///< The statuses of errors that left the attempt undecided.
  int accepted = 0;                   ///< How often the attempt said that no retry can follow.
  bool client_takes_all = true;       ///< If false, some of what is written waits for a slow client.

 private:
  AttemptStory& written(Moment when) {
    last_.clear();
    write(when);
    if (machine->state() == AnswerHandler::State::undecided) {
      errors_left.push_back(machine->status_read());
      machine->settle_error(setup.leaves_errors, when, out);
      if (!setup.leaves_errors) write(when);
    }
    if (machine->committed() && !std::exchange(was_accepted_, true)) ++accepted;
    return *this;
  }
  void write(Moment when) {
    std::string bytes;
    for (const auto span : out.spans) bytes.append(span);
    EXPECT_EQ(bytes.size(), out.size());
    last_ += bytes;
    client += bytes;
    machine->written(when, client_takes_all);
  }
  bool was_accepted_ = false;
  std::string last_;
};

}  // namespace weir::proxy::exchange

// Reads what a replica sends as an attempt does: interim answers, head, framing, events. However it is cut, the head,
// the bytes that go on, the end, the verdict and what becomes of the connection must be the same.
//
// An input has the API, a byte of circumstances, one that says how the connection ends, two for the cuts, and the
// bytes.
#include <array>
#include <optional>
#include <sstream>

#include "balancer/pool.hpp"
#include "proxy/exchange/replica_side.hpp"
#include "tests/fuzz/input.hpp"

namespace {

using namespace weir;
using fuzz::must;
using metrics::Moment;
using proxy::exchange::ReplicaSide;
using balancer::story::End;

Moment at(int seconds) { return Moment(std::chrono::hours(1)) + std::chrono::seconds(seconds); }

struct Circumstances {
  metrics::Api api = metrics::Api::other;
  bool stream = false, to_head = false, asked = false, proven = false, reused = false;
  End end = End::closed;
};

const config::Limits limits{};

class Reading {
 public:
  Reading(const Circumstances& with, const std::vector<std::string_view>& pieces) {
    balancer::ReplicaSpec spec;
    spec.name = "r0";
    pool_->set_replicas({&spec, 1}, at(-2));
    metrics::wire::RequestFacts facts;
    facts.api = with.api;
    facts.stream = with.stream;
    auto offered = pool_->offer({std::make_shared<const metrics::wire::RequestFacts>(facts)}, at(-1));
    ReplicaSide::Options options{.limits = limits};
    options.api = with.api;
    options.stream = with.stream;
    options.to_head = with.to_head;
    if (with.asked) options.asked = metrics::wire::Ask::usage;
    options.injection_proven = with.proven;
    options.reused = with.reused;
    options.received = options.started = at(-1);
    balancer::story::AttemptReport over;
    over.lease = std::move(std::get<balancer::Admitted>(offered).lease);
    over.sent = at(0);
    ReplicaSide machine(options, over, shard_);
    std::size_t fed = 0;
    for (; fed < pieces.size() && machine.state() != ReplicaSide::State::done; ++fed) arrives(machine, pieces[fed]);
    const bool any_left = fed < pieces.size();
    if (machine.state() != ReplicaSide::State::done) take(machine.ended(with.end, at(2)));
    must(machine.state() == ReplicaSide::State::done, "an attempt ends with its connection");
    must(ends_ == 1, "an end is told once");
    must(heads_ <= 1, "a final head is told once");
    must(pool_->figures().in_flight() == (over.lease ? 1u : 0u), "a lease ends with the replica's work");
    told_ << " status " << over.status << " stream " << machine.is_stream() << " marker "
          << (machine.meter() && machine.meter()->complete()) << " outcome " << static_cast<int>(over.verdict.outcome)
          << " tokens " << machine.answer().token_events << " events " << machine.answer().events << " retry "
          << over.retry_after.value_or(std::chrono::seconds(-1)).count()
          // Bytes behind an answer that come later are seen where the idle connection is taken again.
          << " reusable " << (over.replica_reusable && !any_left) << " body " << body_;
  }

  std::string told() const { return told_.str(); }
  bool is_whole() const { return whole_; }
  const std::string& body() const { return body_; }

 private:
  void arrives(ReplicaSide& machine, std::string_view piece) {
    std::vector<char> bytes(piece.begin(), piece.end());
    bytes.resize(piece.size() + metrics::measure::StreamMeter::padding, '"');
    take(machine.arrived({bytes.data(), piece.size()}, at(1)));
  }
  void take(const ReplicaSide::Progress& progress) {
    for (const auto span : progress.body) body_.append(span);
    if (progress.head) {
      ++heads_;
      told_ << "head " << progress.head->status << ' ' << progress.head->keep_alive << progress.event_stream;
      for (const auto& field : progress.head->fields) told_ << ' ' << field.name << '=' << field.value;
    }
    if (!progress.end) return;
    ++ends_;
    whole_ = *progress.end == End::whole;
    told_ << " end " << static_cast<int>(*progress.end);
  }

  std::shared_ptr<balancer::Pool> pool_ = balancer::Pool::make(config::Policy::round_robin, 1);
  metrics::series::ReplicaShard shard_;
  std::ostringstream told_;
  std::string body_;
  int heads_ = 0, ends_ = 0;
  bool whole_ = false;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  fuzz::Input input(bytes, size);
  Circumstances with;
  with.api = static_cast<metrics::Api>(input.take() % metrics::api_names.size());
  const unsigned flags = input.take();
  with.stream = (flags & 1) != 0;
  with.to_head = (flags & 2) != 0;
  with.asked = (flags & 4) != 0 && with.stream;
  with.proven = (flags & 8) != 0;
  with.reused = (flags & 16) != 0;
  constexpr std::array ends{End::closed, End::reset, End::timed_out, End::cut};
  with.end = ends[input.take() % ends.size()];
  fuzz::Cuts cuts(input.take(), input.take());
  const std::string_view answer = input.rest();

  std::vector<std::string_view> one;
  if (!answer.empty()) one.push_back(answer);
  const Reading whole(with, one);
  const std::size_t step = 1 + answer.size() / 4096;
  for (const auto& pieces :
       {fuzz::pieces(answer, [=] { return step; }), fuzz::pieces(answer, [&] { return cuts.next(); })})
    must(Reading(with, pieces).told() == whole.told(), "an attempt does not depend on the cuts");
  must(whole.body().size() <= answer.size(), "what goes on was sent");
  return 0;
}

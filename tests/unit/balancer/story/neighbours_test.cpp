// Random stories in simulated time: clients that replicas limit, refuse, fail or give nothing, requests that end
// replicas or put them to sleep, and conversations whose state one replica has, beside well-behaved clients. These are
// served as they would be without the others.
#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "stories.hpp"
#include "tests/draws.hpp"

namespace weir::balancer::story {
namespace {

/// What happens to a client's requests.
enum class Fate : std::uint8_t {
  served,
  limited,           ///< 429 with a Retry-After of a minute, at all replicas.
  limited_in_short,  ///< 429 without one.
  unknown_route,     ///< 404 everywhere.
  partial_model,     ///< 404 at all replicas but one.
  fails,             ///< 500 everywhere.
  fails_there,       ///< 500 at one replica.
  empty,             ///< Answers without a token, everywhere.
  ends_replicas,     ///< The replica ends, and comes back after some seconds.
  sends_to_sleep,    ///< A replica sleeps for some seconds, and its page says so. Its requests stand meanwhile.
  converses,         ///< 404 at all replicas but the one that made the state. Of some states weir has forgotten where.
};
constexpr unsigned fates = 11;

class Town {
 public:
  Town(std::uint64_t seed, bool with_others)
      : behind_gateway_(seed % 3 == 0),
        random_(seed),
        of_(3 + seed % 4, 0.2, 100, config::Pool{}.policy),
        with_others_(with_others) {
    replicas_.resize(of_.specs.size());
    one_ = below(static_cast<unsigned>(replicas_.size()));
    // The others are drawn in both runs, so that the well-behaved come at the same moments.
    const double rate_of_one = 0.2 * static_cast<double>(replicas_.size());
    for (std::uint64_t i = 0; i < 6; ++i) add(i + 1, Fate::served, rate_of_one);
    std::mt19937_64 others(seed + 1000);
    for (std::uint64_t i = 0, n = 1 + others() % 5; i < n; ++i) {
      const auto fate = static_cast<Fate>(1 + others() % (fates - 1));
      // What is served takes room from the others, as anybody's requests do: so it is little.
      const bool works =
          fate == Fate::partial_model || fate == Fate::fails_there || fate == Fate::empty || fate == Fate::converses;
      const double some = static_cast<double>(others() % 80) / 10;
      const bool is_rare = fate == Fate::ends_replicas || fate == Fate::sends_to_sleep;
      const double rate = is_rare ? 0.1 : works ? 0.2 + some / 8 : 0.5 + some;
      if (with_others_) add(100 + i, fate, rate);
      if (with_others_ && fate == Fate::ends_replicas) poison += 3;
      happens += std::to_string(static_cast<int>(fate)) + " at " + std::to_string(rate) + "/s; ";
    }
    for (ReplicaIndex i = 0; i < replicas_.size(); ++i) probe(i);
  }

  void run() {
    while (!events_.empty()) {
      const auto [when, what] = std::pair(events_.begin()->first, events_.begin()->second);
      events_.erase(events_.begin());
      of_.now = at(when);
      now_ = when;
      what();
      static_cast<void>(of_.pool->health().take_changes(of_.now));
      take_grants();
    }
  }

  std::size_t good = 0, bad = 0;
  std::size_t found = 0, not_found = 0;  ///< Requests for a model that one replica has.
  unsigned ended = 0;                    ///< Replicas that a request ended.
  unsigned lost_states = 0;              ///< Turns of conversations that were not served.
  unsigned poison = 0;                   ///< Clients that send such a request, and minutes in which they do.
  std::vector<double> times{};           ///< Of the well-behaved clients' answers.
  std::string happens{};

 private:
  static constexpr double end_ = 120, takes_ = 0.25, slots_ = 4;
  struct Replica {
    bool alive = true, asleep = false;
    unsigned working = 0, ended = 0;
  };
  struct Request {
    std::unique_ptr<Story> story;
    std::uint64_t client = 0;
    Fate fate = Fate::served;
    double came = 0;
    std::optional<WaitTicket> ticket{};
    unsigned tries = 0;
    std::uint64_t state = 0;  ///< 0: none, or the first turn of a conversation.
  };

  unsigned below(unsigned n) { return std::uniform_int_distribution(0U, n - 1)(random_); }
  void in(double seconds, std::function<void()> what) { events_.emplace(now_ + seconds, std::move(what)); }

  void add(std::uint64_t client, Fate fate, double rate) {
    comes_again(std::make_shared<std::mt19937_64>(random_()), client, fate, rate);
  }
  void comes_again(const std::shared_ptr<std::mt19937_64>& draws, std::uint64_t client, Fate fate, double rate) {
    in(std::exponential_distribution(rate)(*draws), [this, draws, client, fate, rate] {
      if (now_ > end_) return;
      come(client, fate, 0);
      comes_again(draws, client, fate, rate);
    });
  }

  void come(std::uint64_t client, Fate fate, unsigned tries) {
    if (fate == Fate::sends_to_sleep) return send_to_sleep();
    auto request = std::make_shared<Request>();
    request->client = client;
    request->fate = fate;
    request->came = now_;
    request->tries = tries;
    auto about = Stories::inference();
    const Topic topic = fate == Fate::unknown_route ? 2U : fate == Fate::partial_model ? 3U : 1U;
    about.caller = {.client = client, .topic = topic};
    if (fate == Fate::converses) {
      const auto state = last_state_.find(client);
      about.hands_out = true;
      about.state = request->state = state == last_state_.end() ? 0 : state->second;
      const auto home = about.state == 0 ? std::nullopt : of_.homes.find(about.state, of_.now);
      about.ties = {.home = home ? home->replica : 0, .seeks = about.state != 0 && !home};
    }
    if (behind_gateway_) about.caller.voice = 1;
    // The well-behaved send no request twice.
    request->story = of_.begin(about, client < 100 ? 1000 + ++sent_ : client);
    follow(request, request->story->resume(Begun{}, of_.now));
  }

  void follow(const std::shared_ptr<Request>& request, std::optional<Command> next) {
    while (next == Command::ask_pool) {
      auto placement = request->story->placement();
      placement.waiter = request;
      auto offered = of_.pool->offer(placement, of_.now);
      if (auto* const admitted = std::get_if<Admitted>(&offered)) {
        next = of_.leased(*request->story, std::move(admitted->lease));
      } else if (const auto* const refused = std::get_if<Refused>(&offered)) {
        next = request->story->resume(*refused, of_.now);
      } else {
        const auto& waiting = std::get<Waiting>(offered);
        request->ticket = waiting.ticket;
        request->story->resume(waiting, of_.now);
        in(std::chrono::duration<double>(waiting.deadline - of_.now).count(), [this, request, ticket = waiting.ticket] {
          if (request->ticket != ticket || !of_.pool->leave(ticket, of_.now)) return;
          request->ticket.reset();
          follow(request, request->story->resume(Refused{Refused::Reason::expired}, of_.now));
        });
        return;
      }
    }
    if (next == Command::done) return finish(*request);
    connect(request);
  }

  void take_grants() {
    while (!of_.granted.empty())
      for (auto& granted : std::exchange(of_.granted, {})) {
        const auto request = std::static_pointer_cast<Request>(granted.waiter);
        request->ticket.reset();
        if (auto* const lease = std::get_if<Lease>(&granted.what))
          follow(request, of_.leased(*request->story, std::move(*lease)));
        else
          follow(request, request->story->resume(std::get<Refused>(granted.what), of_.now));
      }
  }

  void connect(const std::shared_ptr<Request>& request) {
    const ReplicaIndex at = request->story->replica().key.index;
    Replica& replica = replicas_[at];
    if (!replica.alive) return ends(request, unconnected(ConnectFailure::refused));
    if (replica.asleep) return in(1, [this, request] { connect(request); });
    const bool works = is_served(*request, at) || request->fate == Fate::empty || request->fate == Fate::ends_replicas;
    replica.working += works ? 1 : 0;
    const double takes = !works ? 0.002 : takes_ * std::max(1.0, replica.working / slots_);
    in(takes, [this, request, at, works, life = replica.ended] {
      // It ended meanwhile, and the request with it.
      if (replicas_[at].ended != life) return ends(request, broken());
      replicas_[at].working -= works ? 1 : 0;
      if (request->fate == Fate::ends_replicas) end(at);
      ends(request, answer_at(*request, at));
    });
  }

  bool is_served(const Request& request, ReplicaIndex at) const {
    switch (request.fate) {
      case Fate::served:
        return true;
      case Fate::partial_model:
        return at == one_;
      case Fate::fails_there:
        return at != one_;
      case Fate::converses:
        return request.state == 0 || made_at_.at(request.state) == at;
      default:
        return false;
    }
  }

  AttemptOver answer_at(const Request& request, ReplicaIndex at) const {
    if (is_served(request, at)) return answer_of();
    switch (request.fate) {
      case Fate::limited: {
        auto full = error(429);
        full.retry_after = std::chrono::seconds(60);
        return full;
      }
      case Fate::limited_in_short:
        return error(429);
      case Fate::unknown_route:
      case Fate::partial_model:
      case Fate::converses:
        return error(404);
      case Fate::empty: {
        auto nothing = answer_of();
        nothing.verdict.outcome = Outcome::ok_empty;
        return nothing;
      }
      case Fate::ends_replicas:
        return broken();
      default:
        return error(500);
    }
  }

  void end(ReplicaIndex at) {
    Replica& replica = replicas_[at];
    replica.alive = false;
    ++ended;
    ++replica.ended;
    replica.working = 0;
    in(2, [&replica] { replica.alive = true; });
  }

  /// Three of four replicas are awake: requests end two, and another one is left.
  /// The only one that has a model is awake, too: the others refuse its requests.
  void send_to_sleep() {
    const ReplicaIndex at = below(static_cast<unsigned>(replicas_.size()));
    if (4 * (1 + std::ranges::count(replicas_, true, &Replica::asleep)) > static_cast<int>(replicas_.size())) return;
    const auto tell = [this, at](bool asleep) {
      replicas_[at].asleep = asleep;
      of_.pool->health().engine_told(of_.key(at), {.kv_tokens = {}, .max_context = {}, .asleep = asleep});
    };
    if (replicas_[at].asleep || at == one_) return;
    tell(true);
    in(15, [tell] { tell(false); });
  }

  /// The replica that answered has the conversation's next state.
  void note_state(const Request& request) {
    const auto state = ++states_ + 10'000;
    last_state_[request.client] = state;
    made_at_[state] = request.story->replica().key.index;
    const auto& [homes, home] = request.story->plan().handed_out;
    const bool is_forgotten = state % 8 == 0;
    if (!is_forgotten) homes->note(state, home, of_.now);
  }

  void probe(ReplicaIndex at) {
    if (now_ > end_) return;
    of_.pool->health().report(of_.key(at), replicas_[at].alive ? Sign::probe_passed : Sign::probe_refused, of_.now);
    in(std::chrono::duration<double>(of_.pool->health().of(of_.key(at), of_.now).probe_after).count(),
       [this, at] { probe(at); });
  }

  void ends(const std::shared_ptr<Request>& request, AttemptOver over) {
    const unsigned status = over.status;
    if (over.reply == Reply::relayed) request->story->answer_accepted(status, false, of_.now);
    follow(request, of_.over(*request->story, std::move(over)));
  }

  void finish(const Request& request) {
    const bool served = request.story->ending().told == Told::relayed;
    if (request.fate == Fate::partial_model) ++(served ? found : not_found);
    if (request.client < 100) {
      ++(served ? good : bad);
      times.push_back(now_ - request.came);
      return;
    }
    if (request.fate == Fate::converses) return served ? note_state(request) : void(++lost_states);
    // A library sends a request that failed twice more, unless it is told not to.
    const Told told = request.story->ending().told;
    if (request.tries < 2 && told == Told::failed && !request.story->ending().failed_twice)
      in(0.5, [this, client = request.client, fate = request.fate, tries = request.tries] {
        come(client, fate, tries + 1);
      });
  }

  const bool behind_gateway_;  ///< All clients have one address, and credentials of their own.
  std::mt19937_64 random_;
  std::multimap<double, std::function<void()>> events_;
  double now_ = 0;
  Stories of_;
  const bool with_others_;
  std::vector<Replica> replicas_;
  ReplicaIndex one_ = 0;
  std::uint64_t sent_ = 0, states_ = 0;
  std::map<std::uint64_t, std::uint64_t> last_state_;  ///< By client.
  std::map<std::uint64_t, ReplicaIndex> made_at_;      ///< By state.
};

double percentile(std::vector<double> times, double p) {
  const auto at = times.begin() + static_cast<std::ptrdiff_t>(p / 100 * static_cast<double>(times.size()));
  std::ranges::nth_element(times, at);
  return *at;
}

TEST(StoryNeighbours, ChangeNothingForThoseWhoAreServed) {
  for (std::uint64_t seed = 1; seed <= tests::draws(15, 300); ++seed) {
    Town alone(seed, false), beside(seed, true);
    alone.run();
    beside.run();
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << beside.happens);
    ASSERT_GT(alone.good, 100u);
    EXPECT_EQ(alone.bad, 0u);
    EXPECT_EQ(beside.good + beside.bad, alone.good);
    // What a replica had at work ends with it, and who was at work at two has cost two. Those at one wait for another.
    EXPECT_LE(100 * beside.bad, beside.ended * beside.good);
    EXPECT_LE(percentile(beside.times, beside.ended > 0 ? 90 : 99), 2 * percentile(alone.times, 99));
    EXPECT_TRUE(beside.lost_states == 0 || beside.ended > 0) << beside.lost_states << " while no replica was out";
    // Until the replica is known, and whenever it has ended.
    EXPECT_LE(beside.not_found, 4 + 6 * beside.ended + (beside.found + beside.not_found) / 10);
    EXPECT_LE(beside.ended, 3 * beside.poison) << "two, and a third where the request was not alone";
  }
}

}  // namespace
}  // namespace weir::balancer::story

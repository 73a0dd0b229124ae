#include "proxy/fleet/watcher.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <cerrno>
#include <map>
#include <optional>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "metrics/measure/stream_meter.hpp"
#include "metrics/moment.hpp"
#include "proxy/events/events.hpp"
#include "proxy/fleet/engine_page.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/net/connect.hpp"
#include "proxy/net/tls/context.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using balancer::Sign;
using balancer::Testimony;
using Clock = std::chrono::steady_clock;
using State = metrics::ReplicaState;

constexpr std::chrono::milliseconds watcher_looks_every{50};
constexpr std::size_t probe_read_size = 4096;
constexpr std::size_t longest_page = 1024 * 1024;
constexpr std::chrono::seconds models_limit{2};
/// A replica that may hang is read twice, with this pause.
constexpr std::chrono::seconds between_witnesses{1};

/// Reads the status alone.
class StatusReader final : public AnswerReader {
 public:
  void head(const http::ResponseHead& head, metrics::Moment, metrics::Moment) override { status = head.status; }
  bool body(std::span<const char>, metrics::Moment) override { return false; }
  void end(bool, bool, metrics::Moment) override {}

  unsigned status = 0;
};

/// True for the answer of a replica that works and has no such path for weir.
bool has_no_health_path(unsigned status) { return status == 401 || status == 403 || status == 404 || status == 405; }

/// The signs that a replica works, whatever its probes say.
struct Activity {
  std::optional<metrics::Moment> answered;                      ///< Its last token or whole answer came then.
  Clock::time_point counters_moved = Clock::time_point::min();  ///< A page of its engine has shown that then.
  Clock::time_point at = Clock::time_point::min();              ///< The moment of this look.
};

Activity activity_of(const Replica& replica, balancer::Pool& books, Clock::time_point now) {
  Activity activity;
  activity.answered = books.health().last_life(replica.key, now);
  if (const auto engine = replica.state->engine.get(); engine.load) activity.counters_moved = engine.load->moved;
  activity.at = now;
  return activity;
}

/// True if the replica has worked between the two.
bool has_worked(const Activity& before, const Activity& now) {
  return now.answered != before.answered || now.counters_moved > before.at;
}

/// The result of one probe, empty where the failure is weir's own.
struct Probed {
  std::optional<Sign> sign;
  std::optional<Testimony> testimony;  ///< A connection alone is the kernel's: the process need not live.
  unsigned error = 0;                  ///< The health path answered with an error of this status.
};

Probed probed_by_status(const Replica& replica, const std::string& path, unsigned status) {
  if (status == 0) return {Sign::probe_failed, Testimony::mute};
  if (status / 100 == 2) return {Sign::probe_passed, Testimony::answered};
  if (!has_no_health_path(status)) return {Sign::probe_failed, Testimony::ill, status >= 400 ? status : 0};
  if (!std::exchange(replica.state->probe_connects, true))
    events::info(
        events::What::engine, replica.settings.name,
        "replica '{}' answers {} to GET {}: from now on its probe only connects; set [health] path for another",
        replica.settings.name, status, path);
  return {Sign::probe_passed, Testimony::answered};
}

/// A handshake that fails is said in the log, because the replica's state tells only that its probe failed.
Probed probed_by_connecting(const Replica& replica, int error) {
  if (error == 0) return {Sign::probe_passed, replica.tls ? std::optional(Testimony::answered) : std::nullopt};
  if (net::is_local_shortage(error)) return {};
  if (net::tls::is_failure(error)) {
    const auto line = replica.state->failures.failed("cannot connect: " + net::connect_error_text(error), Clock::now());
    if (line)
      events::warn(events::What::failure, replica.settings.name, "replica '{}' {}", replica.settings.name, *line);
  }
  return {error == ECONNREFUSED || error == ENOENT ? Sign::probe_refused : Sign::probe_failed, Testimony::mute};
}

/// All connections go to this address from now on, if it is still one of the replica's. The control thread alone
/// changes addresses.
void prefer(const Replica& replica, const net::Address& chosen) {
  auto& state = *replica.state;
  const auto first = state.address.get();
  const auto found = std::ranges::find(state.other_addresses, chosen);
  if (!first || found == state.other_addresses.end()) return;
  *found = *first;
  state.address.set(chosen);
  events::info(events::What::discovery, replica.settings.name, "replica '{}': connections go to {} now, {} takes none",
               replica.settings.name, chosen.to_text(), first->to_text());
}

/// `any_answer`: an HTTP answer is wanted, even of a replica without a health path.
net::Awaitable<Probed> probe(std::shared_ptr<const Replica> replica, config::Health settings, bool any_answer) {
  auto destination = replica->destination();
  if (!destination) co_return Probed();
  const auto executor = co_await asio::this_coro::executor;
  auto others = replica->state->other_addresses;
  ReplicaStream stream(executor, std::move(*destination), metrics::ticks(settings.timeout));
  const auto error = co_await stream.connect(others);
  if (error == 0) prefer(*replica, stream.address());
  if (error != 0 || settings.path.empty() || (replica->state->probe_connects && !any_answer))
    co_return probed_by_connecting(*replica, error);
  Question question;
  question.path = settings.path;
  question.credential = bearer(replica->settings.api_key);
  const auto bytes = bytes_of(replica->settings.url, question);
  co_await stream.write(bytes);
  StatusReader reader;
  ReplicaAnswer answer(reader, Clock::now());
  std::vector<char> buffer(probe_read_size + metrics::measure::StreamMeter::padding);
  const std::span<char> into(buffer.data(), probe_read_size);
  while (reader.status == 0) {
    const auto read = co_await stream.read(into);
    if (read.size <= 0 || answer.arrived(into.first(static_cast<std::size_t>(read.size)), read.at)) break;
  }
  if (const int refused = stream.refusal()) co_return probed_by_connecting(*replica, refused);
  co_return probed_by_status(*replica, settings.path, reader.status);
}

/// The questions of a reading, as values: the settings may change meanwhile.
struct ReadingPlan {
  std::shared_ptr<const Replica> replica;
  std::shared_ptr<balancer::Pool> books;
  config::EngineReading settings;
  Engine engine;
  bool page, models;  ///< What is asked for.
  bool identity;      ///< With the metrics page, the pages that tell what the engine is.
  bool is_served;     ///< Clients are served its models.
};

struct Reading {
  Pages pages;
  std::optional<EnginePage> metrics;  ///< Its divergence and its moment are set.
  Clock::time_point begun{};          ///< The metrics page was asked for then.
  std::chrono::steady_clock::duration page_took{};
  bool identified = false;
};

net::Awaitable<PageAnswer> ask(std::shared_ptr<const Replica> replica, std::string path, Clock::duration limit) {
  Question question;
  question.path = std::move(path);
  question.credential = bearer(replica->settings.api_key);
  auto page = co_await ask_for_page(replica, question, limit, longest_page);
  co_return page;
}

/// The ledger is read at the moment of the answer. Requests that begin or end between the engine's count and this
/// moment are the error.
void compare_with_ledger(const ReadingPlan& plan, EngineLoad& load, Clock::time_point now) {
  load.at = now;
  if (!load.running || !load.waiting) return;
  load.divergence = *load.running + *load.waiting - plan.books->figures().load(plan.replica->key, now).in_flight;
}

balancer::EngineSigns signs_of(const EnginePage& page) {
  return {.started = page.started,
          .worked = page.counters,
          .looked_up = page.load.prefix_queries,
          .found = page.load.prefix_hits,
          .asleep = page.load.asleep};
}

/// What is known of one replica between two questions.
struct Watch {
  bool probing = false;                                 ///< A probe is under way.
  bool suspected = false;                               ///< The replica may hang: it is to be probed at once.
  Clock::time_point probed = Clock::time_point::min();  ///< The last probe ended then.
  double spread = 1;                                    ///< A fifth more or less than the interval.
  Activity activity{};                                  ///< The signs at that moment.

  bool reading = false;  ///< A reading is under way.
  ReadingSchedule schedule;
  PageComplaints complaints;
  bool said_missing = false;
  bool was_out = false, was_down = false;
  std::string last_model;                     ///< Outlasts the engine, so that a change of model is noticed.
  std::pair<std::string, std::string> asked;  ///< The path and the key with which it was asked.
  std::optional<net::Address> address;
  Clock::time_point suspected_at{};       ///< The replica was last suspected to hang then.
  std::optional<Counters> counters_then;  ///< The counters of the first page that was asked for after that.
  Counters counters;                      ///< The latest of each.
};

/// The questions under way own the watcher, so that a late answer finds it.
class Watcher : public std::enable_shared_from_this<Watcher> {
 public:
  Watcher(asio::io_context& context, const Fleet& fleet, ModelDirectory& models, std::uint64_t seed)
      : context_(context), fleet_(fleet), models_(models), random_(seed) {}

  void tick() {
    const auto snapshot = fleet_.snapshot();
    if (std::exchange(snapshot_, snapshot) != snapshot) {
      snapshot->keep_known(watches_);
      models_.follow(snapshot);
    }
    const auto now = Clock::now();
    snapshot->each_replica([&](const PoolRuntime& pool, const std::shared_ptr<const Replica>& replica) {
      auto& watch = watches_[replica->state->id];
      const auto health = pool.balancer->health().of(replica->key, now);
      const auto pause = health.probe_after * watch.spread;
      if (!watch.probing && now >= watch.probed + metrics::ticks(pause)) begin_probe(pool, replica, watch);
      notice_change(pool, *replica, watch, health.state);
      if (!watch.reading) begin_reading(pool, replica, watch, now);
    });
    snapshot->each_pool([&](const auto& pool) {
      tell_changes(*pool, now);
      ask_witnesses(*pool, now);
    });
  }

 private:
  double spread() { return std::uniform_real_distribution(0.8, 1.2)(random_); }

  /// Asks a replica, one such question at a time, and calls take(Watch&, Result) with the answer: an empty one after an
  /// exception. An answer of a replica that is no longer in the settings is dropped.
  template <class Result, class Take>
  void begin(Watch& watch, bool Watch::* under_way, Part part, std::uint64_t id, net::Awaitable<Result> question,
             Take take) {
    auto over = [self = shared_from_this(), under_way, part, id, take = std::move(take)](
                    const std::exception_ptr& failure, Result result) {
      auto& errors = self->fleet_.internal_errors();
      note_failure(errors, part, failure, "the replica is asked again as usual");
      const auto found = self->watches_.find(id);
      if (found == self->watches_.end()) return;
      found->second.*under_way = false;
      noting_failure(errors, part, "what the replica told is lost",
                     [&] { take(*self, found->second, failure ? Result() : std::move(result)); });
    };
    asio::co_spawn(context_, std::move(question), std::move(over));
    watch.*under_way = true;
  }

  /// Asks the health path and the counters of each replica that has become suspect, also of a leaving one. Two pages in
  /// a row are to show whether the engine works.
  void ask_witnesses(const PoolRuntime& pool, Clock::time_point now) {
    for (const auto& suspect : pool.balancer->health().take_suspects()) {
      const auto replica = std::static_pointer_cast<Replica>(suspect.subject);
      auto& watch = watches_[replica->state->id];
      watch.suspected_at = suspect.since;
      watch.counters_then.reset();
      watch.schedule.look_at(now);
      watch.suspected = true;
      if (!watch.probing) begin_probe(pool, replica, watch);
    }
  }

  void begin_probe(const PoolRuntime& pool, const std::shared_ptr<const Replica>& replica, Watch& watch) {
    if (!replica->state->address.get()) return;  // Its name has not been looked up yet.
    const auto begun = Clock::now();
    const bool suspected = std::exchange(watch.suspected, false);
    // The kernel takes the connections of a process that hangs: one that is out has to answer before it is back.
    const auto state = pool.balancer->health().of(replica->key, begun).state;
    const bool out = state == State::down || state == State::ejected;
    auto taken = [replica, books = pool.balancer, begun, before = activity_of(*replica, *pool.balancer, begun)](
                     Watcher& self, Watch& its, const Probed& probed) {
      self.take_probe(*replica, *books, its, probed, begun, before);
    };
    begin<Probed>(watch, &Watch::probing, Part::prober, replica->state->id,
                  probe(replica, pool.settings.health, suspected || out), std::move(taken));
  }

  /// Takes the result of a probe that began at `begun`, with the signs of that moment in `before`.
  void take_probe(const Replica& replica, balancer::Pool& books, Watch& watch, Probed probed, Clock::time_point begun,
                  const Activity& before) {
    const auto now = Clock::now();
    const auto activity = activity_of(replica, books, now);
    // A busy engine answers a probe late. Work done meanwhile excuses that, and the probe does not count as passed
    // either. For a probe without an answer, work counts only from its beginning. An error is the replica's word that
    // it is to get nothing new: work is no excuse, and only contradicts that the replica hangs.
    const bool late = probed.testimony == Testimony::mute;
    if (probed.sign == Sign::probe_failed && has_worked(late ? before : watch.activity, activity)) {
      probed.testimony.reset();
      if (probed.error == 0) probed.sign = Sign::probe_excused;
    }
    if (probed.sign == Sign::probe_failed || probed.sign == Sign::probe_refused) replica.state->connect_failed = true;
    watch.probed = watch.suspected ? Clock::time_point::min() : now;
    watch.spread = spread();
    watch.activity = activity;
    if (probed.error != 0)
      books.health().ill(replica.key, probed.error, now);
    else if (probed.sign)
      books.health().report(replica.key, *probed.sign, now);
    if (probed.testimony) books.health().testify(replica.key, *probed.testimony, begun, now);
  }

  static void tell_changes(const PoolRuntime& pool, Clock::time_point now) {
    for (const auto& [replica, subject, change] : pool.balancer->health().take_changes(now)) {
      // The loops end those attempts on the replica that began before and have shown nothing.
      if (change.hung)
        std::static_pointer_cast<Replica>(subject)->state->leaves.hung_at.store(change.at, std::memory_order_relaxed);
      const bool worse = change.to == State::down || change.to == State::ejected;
      events::tell(events::What::state, replica, worse ? events::Level::warn : events::Level::info,
                   "replica '{}' is {}, it was {}: {}", replica, metrics::name_of(change.to),
                   metrics::name_of(change.from), change.reason);
    }
  }

  /// A replica that was down, or is at another address, may be another engine.
  static void notice_change(const PoolRuntime& pool, const Replica& replica, Watch& watch, State state) {
    const bool down = state == State::down;
    const bool out = down || state == State::ejected;
    const auto address = replica.state->address.get();
    auto asked = std::pair(pool.settings.engine.metrics_path, replica.settings.api_key);
    if (asked != watch.asked) {
      watch.said_missing = false;
      watch.complaints.forget();
    }
    const bool moved = watch.address && address != watch.address;
    if (moved || (down && !watch.was_down)) {
      replica.state->engine.set({});
      watch.counters.clear();
    }
    // The limits of an engine that is down stay, or the replica would look as if it could hold anything.
    if (moved || (watch.was_down && !down)) pool.balancer->health().engine_told(replica.key, {});
    if (moved) pool.balancer->health().cache_told(replica.key, {.another = true});
    if ((watch.was_out && !out) || address != watch.address || asked != watch.asked) watch.schedule.came_back();
    watch.asked = std::move(asked);
    watch.was_out = out;
    watch.was_down = down;
    watch.address = address;
  }

  /// Begins to read what is due. Copies for a shadow need no list of its models.
  void begin_reading(const PoolRuntime& pool, const std::shared_ptr<const Replica>& replica, Watch& watch,
                     Clock::time_point now) {
    const bool page = !pool.settings.engine.metrics_path.empty() && watch.schedule.page_due(now);
    const bool identity = page && watch.schedule.identity_due(now);
    const bool is_served = pool.shadow.empty();
    const bool models = identity || (is_served && watch.schedule.models_due(now));
    if (!page && !models) return;
    const auto plan = std::make_shared<const ReadingPlan>(ReadingPlan{replica, pool.balancer, pool.settings.engine,
                                                                      replica->state->engine.get().engine, page, models,
                                                                      identity, is_served});
    begin<Reading>(watch, &Watch::reading, Part::engine_reader, replica->state->id, read(plan),
                   [plan](Watcher& self, Watch& its, const Reading& reading) {
                     self.take_reading(*plan, reading, its, Clock::now());
                   });
    watch.schedule.began();
  }

  net::Awaitable<Reading> read(std::shared_ptr<const ReadingPlan> plan) {
    Reading reading;
    Engine engine = plan->engine;
    const auto limit = metrics::ticks(plan->settings.timeout);
    const auto& metrics_page = reading.pages[Page::metrics];
    if (plan->page) {
      reading.begun = Clock::now();
      auto page = co_await ask(plan->replica, plan->settings.metrics_path, limit);
      const auto came = Clock::now();
      reading.page_took = came - reading.begun;
      reading.pages[Page::metrics] = std::move(page);
      if (metrics_page.status == 200) {
        reading.metrics = read_engine_page(metrics_page.body);
        compare_with_ledger(*plan, reading.metrics->load, came);
        if (engine == Engine::unknown) engine = reading.metrics->engine;
      }
    }
    if (plan->models) {
      auto list = co_await ask(plan->replica, std::string(path_of(Page::models)), models_limit);
      reading.pages[Page::models] = std::move(list);
      // Clients are told at once: the pages that follow may take their time.
      if (plan->is_served)
        noting_failure(fleet_.internal_errors(), Part::model_directory, "its models are those that it told before",
                       [&] { models_.learn(*plan->replica, reading.pages[Page::models]); });
    }
    if (!plan->identity || metrics_page.status == 0 || reading.pages[Page::models].status == 0) co_return reading;
    for (const auto which : identifying_pages(engine)) {
      auto told = co_await ask(plan->replica, std::string(path_of(which)), limit);
      reading.pages[which] = std::move(told);
      if (reading.pages[which].status == 0) co_return reading;
    }
    reading.identified = true;
    co_return reading;
  }

  void take_reading(const ReadingPlan& plan, const Reading& reading, Watch& watch, Clock::time_point now) {
    if (plan.models) watch.schedule.models_ended(now);
    if (!plan.page) return;
    const auto& replica = *plan.replica;
    const auto known = replica.state->engine.get();
    auto figures = known;
    take_page(plan, reading, watch, figures, now);
    if (reading.metrics && reading.metrics->is_page)
      plan.books->health().cache_told(replica.key, signs_of(*reading.metrics));
    testify(plan, reading, watch, now);
    // An engine that did not tell what it is is asked again with the next page.
    if (reading.identified) {
      watch.schedule.identified(now);
      take_facts(facts_of(reading.pages), figures);
    } else if (reading.metrics) {
      // The page alone does not tell an engine from one that has the same names.
      if (figures.engine == Engine::unknown) figures.engine = reading.metrics->engine;
      if (reading.metrics->kv_tokens) figures.kv_tokens = reading.metrics->kv_tokens;
    }
    tell_engine(replica, known, figures, watch);
    const auto told = limits_of(figures, now);
    if (told.asleep != limits_of(known, now).asleep)
      events::info(
          events::What::engine, replica.settings.name, "replica '{}' says {}", replica.settings.name,
          told.asleep ? "that it sleeps: it gets nothing while another one is awake" : "no more that it sleeps");
    if (plan.books->health().engine_told(replica.key, told)) replica.state->leaves.asleep_at = now;
    replica.state->engine.set(std::move(figures));
  }

  /// Logs what the engine is, where that has changed.
  static void tell_engine(const Replica& replica, const EngineFigures& before, const EngineFigures& now, Watch& watch) {
    const auto& name = replica.settings.name;
    if (const auto text = text_of(now); text != text_of(before))
      events::info(events::What::engine, name, "replica '{}' is {}", name, text);
    if (now.model.empty()) return;
    const auto model = std::exchange(watch.last_model, now.model);
    if (!model.empty() && model != now.model)
      events::warn(events::What::engine, name, "replica '{}' served model '{}' before, and now serves '{}'", name,
                   model, now.model);
  }

  /// Tells the pool what the page shows of a replica that is suspected to hang.
  static void testify(const ReadingPlan& plan, const Reading& reading, Watch& watch, Clock::time_point now) {
    const auto tell = [&](Testimony what) {
      plan.books->health().testify(plan.replica->key, what, reading.begun, now);
    };
    const auto& page = reading.pages[Page::metrics];
    if (!page.begun && !page.why_none.empty()) tell(Testimony::untold);
    if (watch.suspected_at == Clock::time_point() || reading.begun < watch.suspected_at) return;
    if (!reading.metrics || !reading.metrics->is_page) return;
    tell(Testimony::told);
    const auto& counters = reading.metrics->counters;
    if (counters.empty()) return;
    if (!watch.counters_then) {
      watch.counters_then = counters;
      watch.schedule.look_at(now + between_witnesses);
    } else if (const auto moved = have_moved(*watch.counters_then, counters)) {
      tell(*moved ? Testimony::works : Testimony::still);
    }
  }

  void take_page(const ReadingPlan& plan, const Reading& reading, Watch& watch, EngineFigures& figures,
                 Clock::time_point now) {
    using End = ReadingSchedule::End;
    const auto status = reading.pages[Page::metrics].status;
    const bool came = reading.metrics && reading.metrics->is_page;
    const bool failed = status == 0 || status == 408 || status == 429 || status / 100 == 5;
    const auto interval = metrics::ticks(plan.settings.interval * spread());
    const auto good_until = watch.schedule.page_ended(came     ? End::came
                                                      : failed ? End::failed
                                                               : End::missing,
                                                      reading.page_took, interval, now);
    figures.reading_took = reading.page_took;
    if (came) {
      const auto before = std::exchange(figures.load, reading.metrics->load);
      const bool moved = have_risen(watch.counters, reading.metrics->counters);
      if (before) figures.load->moved = moved ? figures.load->at : before->moved;
      figures.load->good_until = good_until;
      watch.said_missing = false;
    } else if (failed) {
      complain(plan, reading.pages[Page::metrics], watch, now);
    } else if (!std::exchange(watch.said_missing, true)) {
      events::info(events::What::engine, plan.replica->settings.name,
                   "replica '{}' has no metrics page at {} (it answers {}): weir asks again every 5 minutes; {}",
                   plan.replica->settings.name, plan.settings.metrics_path, status, way_out);
    }
  }

  /// A replica that cannot be connected to is its probe's to tell.
  static void complain(const ReadingPlan& plan, const PageAnswer& page, Watch& watch, Clock::time_point now) {
    const auto why = page.status != 0 ? "it answers " + std::to_string(page.status) : page.why_none;
    const bool up = plan.books->health().of(plan.replica->key, now).state == State::up;
    if (!watch.complaints.due(why, up, now)) return;
    events::warn(
        events::What::engine, plan.replica->settings.name,
        "replica '{}' gives no metrics page at {}: {}; without it the engine's figures are unknown (said at most once "
        "an hour for each reason); {}",
        plan.replica->settings.name, plan.settings.metrics_path, why, page.begun ? way_out : no_answer);
  }

  static constexpr std::string_view way_out = "set metrics_path of [engine] for another page, or \"\" for none";
  static constexpr std::string_view no_answer =
      "a busy engine may answer late, and one that hangs does not answer: see its probe, and timeout of [engine]";

  asio::io_context& context_;
  const Fleet& fleet_;
  ModelDirectory& models_;
  std::mt19937_64 random_;
  std::shared_ptr<const Snapshot> snapshot_;
  std::map<std::uint64_t, Watch> watches_;  ///< The key is SharedReplica::id.
};

}  // namespace

void start_watcher(asio::io_context& context, const Fleet& fleet, ModelDirectory& models, std::uint64_t seed) {
  const auto watcher = std::make_shared<Watcher>(context, fleet, models, seed);
  keep_ticking(context, fleet.internal_errors(), Part::prober, watcher_looks_every, [watcher] { watcher->tick(); });
}

}  // namespace weir::proxy::fleet

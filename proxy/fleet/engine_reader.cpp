#include "proxy/fleet/engine_reader.hpp"

#include <boost/asio/co_spawn.hpp>
#include <map>
#include <optional>
#include <random>
#include <string_view>
#include <utility>

#include "config/controls.hpp"
#include "metrics/ticks.hpp"
#include "proxy/events/events.hpp"
#include "proxy/fleet/engine_page.hpp"
#include "proxy/fleet/keep_ticking.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/fleet/page_asking.hpp"
#include "proxy/fleet/page_complaints.hpp"
#include "proxy/fleet/reading_schedule.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds reader_looks_every{100};
constexpr std::size_t longest_page = 1024 * 1024;
constexpr std::size_t longest_version = 64, longest_model = 128;
/// A replica that may hang is read twice, with this pause.
constexpr std::chrono::seconds between_witnesses{1};

/// The questions of a reading, as values: the settings may change meanwhile.
struct ReadingPlan {
  std::shared_ptr<const Replica> replica;
  std::shared_ptr<balancer::Pool> books;
  config::EngineReading settings;
  Clock::time_point begun;
  Engine engine;
  bool identity;  ///< The pages that tell what the engine is are asked for, too.
};

struct Reading {
  Pages pages;
  std::optional<EnginePage> metrics;  ///< Its divergence and its moment are set.
  std::chrono::steady_clock::duration page_took{};
  bool identified = false;
};

net::Awaitable<PageAnswer> ask(std::shared_ptr<const ReadingPlan> plan, std::string path) {
  Question question;
  question.path = std::move(path);
  question.credential = bearer(plan->replica->settings.api_key);
  const auto limit = metrics::ticks(plan->settings.timeout);
  auto page = co_await ask_for_page(plan->replica, question, limit, longest_page);
  co_return page;
}

/// The ledger is read at the moment of the answer. Requests that begin or end between the engine's count and this
/// moment are the error.
void compare_with_ledger(const ReadingPlan& plan, EngineLoad& load, Clock::time_point now) {
  load.at = now;
  if (!load.running || !load.waiting) return;
  load.divergence = *load.running + *load.waiting - plan.books->figures().load(plan.replica->key, now).in_flight;
}

net::Awaitable<Reading> read(std::shared_ptr<const ReadingPlan> plan) {
  Reading reading;
  Engine engine = plan->engine;
  const auto begun = Clock::now();
  auto page = co_await ask(plan, plan->settings.metrics_path);
  const auto came = Clock::now();
  reading.page_took = came - begun;
  reading.pages[Page::metrics] = std::move(page);
  const auto& metrics_page = reading.pages[Page::metrics];
  if (metrics_page.status == 200) {
    reading.metrics = read_engine_page(metrics_page.body);
    compare_with_ledger(*plan, reading.metrics->load, came);
    if (engine == Engine::unknown) engine = reading.metrics->engine;
  }
  if (!plan->identity || metrics_page.status == 0) co_return reading;
  for (const auto which : identifying_pages(engine)) {
    const std::string path(page_paths[static_cast<std::size_t>(which)]);
    auto told = co_await ask(plan, path);
    reading.pages[which] = std::move(told);
    if (reading.pages[which].status == 0) co_return reading;
  }
  reading.identified = true;
  co_return reading;
}

/// The readings own the reader, so that a late one finds it.
class EngineReader : public std::enable_shared_from_this<EngineReader> {
 public:
  EngineReader(asio::io_context& context, const Fleet& fleet, std::uint64_t seed)
      : context_(context), fleet_(fleet), random_(seed) {}

  void tick() {
    const auto snapshot = fleet_.snapshot();
    if (std::exchange(snapshot_, snapshot) != snapshot) snapshot->keep_known(engines_);
    const auto now = Clock::now();
    snapshot->each_replica([&](const PoolRuntime& pool, const std::shared_ptr<const Replica>& replica) {
      if (pool.settings.engine.metrics_path.empty()) return;
      auto& one = engines_[replica->state->id];
      notice_return(pool, *replica, one, now);
      notice_suspicion(*replica, one, now);
      if (!one.under_way && one.schedule.due(now)) begin(pool, replica, one, now);
    });
  }

 private:
  struct OneEngine {
    ReadingSchedule schedule;
    bool under_way = false, said_missing = false;
    bool was_out = false, was_down = false;
    PageComplaints complaints;
    std::string last_model;  ///< Outlasts the engine, so that a change of model is noticed.
    std::pair<std::string, std::string> asked;  ///< The path and the key with which it was asked.
    std::optional<net::Address> address;
    Clock::time_point suspected{};        ///< The replica was last suspected to hang then.
    std::optional<Counters> counters_then;  ///< The counters of the first page that was asked for after that.
    Counters counters;                      ///< The latest of each.
  };

  /// A replica that was down, or is at another address, may be another engine.
  static void notice_return(const PoolRuntime& pool, const Replica& replica, OneEngine& one,
                            Clock::time_point now) {
    const auto state = pool.balancer->health().of(replica.key, now).state;
    const bool out = state == metrics::ReplicaState::down || state == metrics::ReplicaState::ejected;
    const auto address = replica.state->address.get();
    auto asked = std::pair(pool.settings.engine.metrics_path, replica.settings.api_key);
    if (asked != one.asked) {
      one.said_missing = false;
      one.complaints.forget();
    }
    const bool down = state == metrics::ReplicaState::down;
    const bool moved = one.address && address != one.address;
    if (moved || (down && !one.was_down)) {
      replica.state->engine.set({});
      one.counters.clear();
    }
    // The limits of an engine that is down stay, or the replica would look as if it could hold anything.
    if (moved || (one.was_down && !down)) pool.balancer->health().engine_told(replica.key, {});
    if (moved) pool.balancer->health().cache_told(replica.key, {.another = true});
    if ((one.was_out && !out) || address != one.address || asked != one.asked) one.schedule.came_back();
    one.asked = std::move(asked);
    one.was_out = out;
    one.was_down = down;
    one.address = address;
  }

  /// Two pages in a row are to show whether the engine works.
  static void notice_suspicion(const Replica& replica, OneEngine& one, Clock::time_point now) {
    if (replica.state->suspected_at <= one.suspected) return;
    one.suspected = replica.state->suspected_at;
    one.counters_then.reset();
    one.schedule.look_at(now);
  }

  /// Tells the pool what the page shows of a replica that is suspected to hang.
  static void testify(const ReadingPlan& plan, const Reading& reading, OneEngine& one, Clock::time_point now) {
    const auto& page = reading.pages[Page::metrics];
    if (!page.begun && !page.why_none.empty())
      plan.books->health().testify(plan.replica->key, balancer::Testimony::untold, plan.begun, now);
    if (one.suspected == Clock::time_point() || plan.begun < one.suspected) return;
    if (!reading.metrics || !reading.metrics->is_page) return;
    plan.books->health().testify(plan.replica->key, balancer::Testimony::told, plan.begun, now);
    const auto& counters = reading.metrics->counters;
    if (counters.empty()) return;
    if (!one.counters_then) {
      one.counters_then = counters;
      one.schedule.look_at(now + between_witnesses);
    } else if (const auto moved = have_moved(*one.counters_then, counters)) {
      const auto found = *moved ? balancer::Testimony::works : balancer::Testimony::still;
      plan.books->health().testify(plan.replica->key, found, plan.begun, now);
    }
  }

  void begin(const PoolRuntime& pool, const std::shared_ptr<const Replica>& replica, OneEngine& one,
             Clock::time_point now) {
    one.under_way = true;
    const auto plan = std::make_shared<const ReadingPlan>(
        ReadingPlan{replica, pool.balancer, pool.settings.engine, Clock::now(),
                    replica->state->engine.get().engine, one.schedule.identity_due(now)});
    one.schedule.began();
    auto over = [self = shared_from_this(), plan](const std::exception_ptr& failure, Reading reading) {
      note_failure(self->fleet_.internal_errors(), Part::engine_reader, failure, "the reading counts as failed");
      const auto found = self->engines_.find(plan->replica->state->id);
      if (found == self->engines_.end()) return;  // The replica is no longer in the settings.
      found->second.under_way = false;
      if (failure) reading = {};
      noting_failure(self->fleet_.internal_errors(), Part::engine_reader, "what the reading told is lost",
                     [&] { self->take(*plan, reading, found->second, Clock::now()); });
    };
    asio::co_spawn(context_, read(plan), std::move(over));
  }

  void take(const ReadingPlan& plan, const Reading& reading, OneEngine& one, Clock::time_point now) {
    const auto& replica = *plan.replica;
    const auto known = replica.state->engine.get();
    auto figures = known;
    take_page(plan, reading, one, figures, now);
    if (reading.metrics && reading.metrics->is_page)
      plan.books->health().cache_told(replica.key, signs_of(*reading.metrics));
    testify(plan, reading, one, now);
    // An engine that did not tell what it is is asked again with the next page.
    if (reading.identified) {
      one.schedule.identified(now);
      take_facts(facts_of(reading.pages), figures);
    } else if (reading.metrics) {
      // The page alone does not tell an engine from one that has the same names.
      if (figures.engine == Engine::unknown) figures.engine = reading.metrics->engine;
      if (reading.metrics->kv_tokens) figures.kv_tokens = reading.metrics->kv_tokens;
    }
    if (const auto text = text_of(figures); text != text_of(known))
      events::info(events::What::engine, replica.settings.name, "replica '{}' is {}", replica.settings.name, text);
    if (!figures.model.empty()) {
      const auto before = std::exchange(one.last_model, figures.model);
      if (!before.empty() && before != figures.model)
        events::warn(events::What::engine, replica.settings.name,
                     "replica '{}' served model '{}' before, and now serves '{}'", replica.settings.name, before,
                     figures.model);
    }
    const auto told = limits_of(figures, now);
    if (told.asleep != limits_of(known, now).asleep)
      events::info(events::What::engine, replica.settings.name, "replica '{}' says {}", replica.settings.name,
                   told.asleep ? "that it sleeps: it gets nothing while another one is awake"
                               : "no more that it sleeps");
    if (plan.books->health().engine_told(replica.key, told)) replica.state->leaves.asleep_at = now;
    replica.state->engine.set(std::move(figures));
  }

  static balancer::EngineSigns signs_of(const EnginePage& page) {
    return {.started = page.started,
            .worked = page.counters,
            .looked_up = page.load.prefix_queries,
            .found = page.load.prefix_hits,
            .asleep = page.load.asleep};
  }

  void take_page(const ReadingPlan& plan, const Reading& reading, OneEngine& one, EngineFigures& figures,
                 Clock::time_point now) {
    using End = ReadingSchedule::End;
    const auto status = reading.pages[Page::metrics].status;
    const bool came = reading.metrics && reading.metrics->is_page;
    const bool failed = status == 0 || status == 408 || status == 429 || status / 100 == 5;
    const auto spread = std::uniform_real_distribution(0.8, 1.2)(random_);
    const auto good_until = one.schedule.ended(came     ? End::came
                                               : failed ? End::failed
                                                        : End::missing,
                                               reading.page_took, metrics::ticks(plan.settings.interval * spread), now);
    figures.reading_took = reading.page_took;
    if (came) {
      const auto before = std::exchange(figures.load, reading.metrics->load);
      const bool moved = have_risen(one.counters, reading.metrics->counters);
      if (before) figures.load->moved = moved ? figures.load->at : before->moved;
      figures.load->good_until = good_until;
      one.said_missing = false;
    } else if (failed) {
      complain(plan, reading.pages[Page::metrics], one, now);
    } else if (!one.said_missing) {
      one.said_missing = true;
      events::info(events::What::engine, plan.replica->settings.name,
                   "replica '{}' has no metrics page at {} (it answers {}): weir asks again every 5 minutes; {}",
                   plan.replica->settings.name, plan.settings.metrics_path, status, way_out);
    }
  }

  /// A replica that cannot be connected to is the prober's to tell.
  static void complain(const ReadingPlan& plan, const PageAnswer& page, OneEngine& one, Clock::time_point now) {
    const auto why = page.status != 0 ? "it answers " + std::to_string(page.status) : page.why_none;
    const bool up = plan.books->health().of(plan.replica->key, now).state == metrics::ReplicaState::up;
    if (!one.complaints.due(why, up, now)) return;
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
  std::mt19937_64 random_;
  std::shared_ptr<const Snapshot> snapshot_;
  std::map<std::uint64_t, OneEngine> engines_;  ///< The key is ReplicaState::id.
};

}  // namespace

std::span<const Page> identifying_pages(Engine engine) {
  static constexpr std::array openai{Page::models, Page::version};
  static constexpr std::array sglang{Page::models, Page::server_info, Page::get_server_info};
  static constexpr std::array tgi{Page::models, Page::info};
  static constexpr std::array llama_cpp{Page::models, Page::props};
  static constexpr std::array ollama{Page::models, Page::ollama_version, Page::ollama_tags};
  static constexpr std::array all{Page::models,         Page::version,        Page::server_info, Page::get_server_info,
                                  Page::model_info,     Page::get_model_info, Page::info,        Page::props,
                                  Page::ollama_version, Page::ollama_tags};
  switch (engine) {
    case Engine::vllm:
    case Engine::aphrodite:
      return openai;
    case Engine::sglang:
      return sglang;
    case Engine::tgi:
      return tgi;
    case Engine::llama_cpp:
      return llama_cpp;
    case Engine::ollama:
      return ollama;
    case Engine::weir_sim:
      return {openai.data(), 1};
    case Engine::unknown:
      break;
  }
  return all;
}

void take_facts(const ReplicaFacts& facts, EngineFigures& figures) {
  const auto version = config::printable_ascii(facts.version, longest_version);
  const auto model =
      facts.models.empty() ? std::string() : config::printable_ascii(facts.models.front(), longest_model);
  const auto differs = [](const std::string& told, const std::string& known) {
    return !told.empty() && !known.empty() && told != known;
  };
  const bool another_kind = facts.engine != Engine::unknown && facts.engine != figures.engine;
  if (another_kind) {
    figures.engine = facts.engine;
    figures.version.clear();
    figures.model.clear();
  }
  // An engine that was started anew with another model has other limits, too.
  if (another_kind || differs(version, figures.version) || differs(model, figures.model))
    figures.kv_tokens = figures.max_context = std::nullopt;
  if (!version.empty()) figures.version = version;
  if (!model.empty()) figures.model = model;
  if (facts.kv_tokens) figures.kv_tokens = facts.kv_tokens;
  if (facts.max_context) figures.max_context = facts.max_context;
}

balancer::EngineLimits limits_of(const EngineFigures& figures, metrics::Moment now) {
  const auto* const load = figures.load_at(now);
  return {figures.kv_tokens, figures.max_context, load != nullptr && load->asleep};
}

std::string text_of(const EngineFigures& figures) {
  auto text =
      figures.engine == Engine::unknown ? std::string("an unknown engine") : std::string(name_of(figures.engine));
  if (!figures.version.empty()) text += " " + figures.version;
  if (!figures.model.empty()) text += ", model '" + figures.model + "'";
  if (figures.kv_tokens) text += ", KV cache of " + std::to_string(*figures.kv_tokens) + " tokens";
  if (figures.max_context) text += ", context of " + std::to_string(*figures.max_context);
  return text;
}

void start_engine_reader(asio::io_context& context, const Fleet& fleet, std::uint64_t seed) {
  keep_running(context, fleet.internal_errors(), Part::engine_reader, [&context, &fleet, seed] {
    return keep_ticking(std::make_shared<EngineReader>(context, fleet, seed), reader_looks_every);
  });
}

}  // namespace weir::proxy::fleet

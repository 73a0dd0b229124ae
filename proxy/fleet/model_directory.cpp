#include "proxy/fleet/model_directory.hpp"

#include <algorithm>
#include <set>

#include "proxy/events/events.hpp"
#include "proxy/fleet/keep_running.hpp"
#include "proxy/fleet/question.hpp"
#include "proxy/http/head_lines.hpp"
#include "proxy/net/timer.hpp"

namespace weir::proxy::fleet {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using net::Timer;

constexpr std::chrono::seconds ask_every{5};
constexpr std::size_t longest_list = 1024 * 1024;
/// A longer list is not read on a loop, because tokens wait meanwhile.
constexpr std::size_t longest_list_on_loop = 256 * 1024;
constexpr std::size_t most_keyed = 16;
constexpr unsigned most_clients = 64;

ServedModels served_by(const Snapshot& snapshot, const ToldModels& told) {
  ServedModels served;
  for (const auto& pool : snapshot.pools) {
    std::vector<std::shared_ptr<const ModelEntries>> entries;
    for (const auto& replica : pool->replicas)
      if (const auto found = told.find(replica->state->id); found != told.end()) entries.push_back(found->second);
    served.add_pool(pool->settings.models, entries);
  }
  return served;
}

/// Returns the credential fields of a client, each with its CRLF.
std::string credential_fields(const http::RequestHead& head) {
  std::string fields;
  for (const auto& field : head.fields)
    if (!field.value.empty() &&
        (field.known == http::FieldName::authorization || field.known == http::FieldName::x_api_key))
      http::add_field(fields, field.name, field.value);
  return fields;
}

/// `refused` says that a replica wants a key, and got none that it takes.
http::OwnAnswer answer_from(const ServedModels& served, const std::string* text, const http::RequestHead& head,
                            http::Route route, bool refused) {
  if (served.empty() && refused)
    return http::error_answer(401, "invalid_request_error", "invalid_api_key",
                              "the replicas tell their models only to who has their key: send it as "
                              "'Authorization: Bearer KEY' or 'x-api-key: KEY'");
  http::OwnAnswer answer;
  if (route == http::Route::models) {
    answer.body = text != nullptr ? *text : served.text();
    return answer;
  }
  const auto id = http::model_id_in(head.path);
  const auto* entry = id ? served.find(*id) : nullptr;
  if (entry == nullptr) {
    const auto printable = [](char c) { return c >= 0x20 && c < 0x7f; };
    const bool fit = id && std::all_of(id->begin(), id->end(), printable);
    return http::error_answer(404, "invalid_request_error", "model_not_found",
                              "the model '" + (fit ? *id : std::string(head.path)) +
                                  "' is not served here; GET /v1/models lists those that are");
  }
  answer.body = *entry + "\n";
  return answer;
}

/// A place for one of the clients on whose behalf replicas are being asked.
class ClientSlot {
 public:
  explicit ClientSlot(std::atomic<unsigned>& taken) : taken_(taken), got_(taken.fetch_add(1) < most_clients) {}
  ~ClientSlot() { taken_.fetch_sub(1); }
  ClientSlot(const ClientSlot&) = delete;
  ClientSlot& operator=(const ClientSlot&) = delete;
  bool got() const { return got_; }

 private:
  std::atomic<unsigned>& taken_;
  bool got_;
};

}  // namespace

/// The replicas' answers so far, on the control thread.
class ModelDirectory::Answers {
 public:
  explicit Answers(ModelDirectory& directory) : directory_(directory) {}

  std::vector<ModelQuestion> questions() const {
    std::vector<ModelQuestion> all;
    for (const auto& pool : snapshot_->pools)
      for (const auto& replica : pool->replicas) all.push_back({replica, bearer(replica->settings.api_key)});
    return all;
  }

  void learn(const Replica& replica, ModelAnswer answer) {
    if (answer.status == 401 || answer.status == 403) {
      const bool forgotten = told_.erase(replica.state->id) > 0;
      if (!refusing_.insert(replica.state->id).second && !forgotten) return;
      const auto& name = replica.settings.name;
      if (replica.settings.api_key.empty())
        events::info(events::What::engine, name, "replica '{}' tells its models only to who has its key: {}", name,
                     snapshot_->keys ? "set api_key" : "clients' own are used, or set api_key");
      else
        events::warn(events::What::engine, name,
                     "replica '{}' refuses the key that its api_key or api_key_file gives it", name);
      return publish();
    }
    if (answer.status != 200) return;
    // A replica that does not answer now keeps its earlier list: it serves the same model when it is back.
    const bool welcome = refusing_.erase(replica.state->id) > 0;
    auto& known = told_[replica.state->id];
    const bool news = known == nullptr || (!answer.entries.empty() && *known != answer.entries);
    if (news) known = std::make_shared<const ModelEntries>(std::move(answer.entries));
    if (news || welcome) publish();
  }

  net::Awaitable<void> keep_asking() {
    const auto executor = co_await asio::this_coro::executor;
    Timer timer(executor);
    const Tell tell = [this](const Replica& replica, ModelAnswer told) { learn(replica, std::move(told)); };
    for (;;) {
      auto all = questions();
      co_await ask_all(std::move(all), longest_list, tell, nullptr);
      for (const auto due = Clock::now() + ask_every; Clock::now() < due && !follow_snapshot();) {
        timer.expires_after(look_for_a_new_snapshot_every);
        co_await timer.async_wait(net::use_awaitable);
      }
    }
  }

  /// Returns true if there is a new snapshot, after publishing its models.
  bool follow_snapshot() {
    auto snapshot = directory_.fleet_.snapshot();
    if (snapshot == snapshot_) return false;
    snapshot_ = std::move(snapshot);
    std::set<std::uint64_t> named;
    for (const auto& pool : snapshot_->pools)
      for (const auto& replica : pool->replicas) named.insert(replica->state->id);
    std::erase_if(told_, [&named](const auto& one) { return !named.contains(one.first); });
    std::erase_if(refusing_, [&named](std::uint64_t id) { return !named.contains(id); });
    publish();
    return true;
  }

  void publish() const {
    auto known = std::make_shared<KnownModels>();
    known->snapshot = snapshot_;
    known->told = told_;
    for (const auto& pool : snapshot_->pools)
      for (const auto& replica : pool->replicas) {
        if (replica->settings.api_key.empty() && refusing_.contains(replica->state->id))
          known->keyed.push_back(replica);
        const auto told = told_.find(replica->state->id);
        pool->balancer->health().models_told(replica->key, told != told_.end() ? ids_of(*told->second) : nullptr);
      }
    known->served = served_by(*snapshot_, told_);
    known->text = known->served.text();
    directory_.known_.set(std::move(known));
  }

 private:
  ModelDirectory& directory_;
  std::shared_ptr<const Snapshot> snapshot_;
  ToldModels told_;
  std::set<std::uint64_t> refusing_;  ///< Replicas that answered 401 or 403.
};

ModelDirectory::ModelDirectory(const Fleet& fleet) : fleet_(fleet), answers_(std::make_unique<Answers>(*this)) {
  answers_->follow_snapshot();
}

ModelDirectory::~ModelDirectory() = default;

void ModelDirectory::start(asio::io_context& context) {
  keep_running(context, fleet_.internal_errors(), Part::model_directory,
               [answers = answers_.get()] { return answers->keep_asking(); });
}

net::Awaitable<http::OwnAnswer> ModelDirectory::answer(const http::RequestHead& head, http::Route route, Halt& halt,
                                                       const keys::ClientKey* key) {
  const auto known = known_.get();
  if (key != nullptr) {
    if (key->settings.models.empty()) co_return answer_from(known->served, &known->text, head, route, false);
    const auto served = known->served.only(key->settings.models);
    co_return answer_from(served, nullptr, head, route, false);
  }
  const auto credential = credential_fields(head);
  if (credential.empty() || known->keyed.empty())
    co_return answer_from(known->served, &known->text, head, route, !known->keyed.empty());

  const ClientSlot place(asking_);
  if (!place.got()) {
    auto busy = http::error_answer(429, "overloaded_error", "overloaded",
                                   "too many clients ask for the models of replicas that want a key: try again in 1 s");
    busy.retry_after = std::chrono::seconds(1);
    co_return busy;
  }
  std::vector<ModelQuestion> questions;
  for (const auto& replica : known->keyed)
    if (questions.size() < most_keyed) questions.push_back({replica, credential});
  ToldModels told = known->told;
  bool refused = false;
  const Tell tell = [&told, &refused](const Replica& replica, ModelAnswer answer) {
    refused |= answer.status == 401 || answer.status == 403;
    if (answer.status == 200) told[replica.state->id] = std::make_shared<const ModelEntries>(std::move(answer.entries));
  };
  co_await ask_all(std::move(questions), longest_list_on_loop, tell, &halt);
  const auto served = served_by(*known->snapshot, told);
  co_return answer_from(served, nullptr, head, route, refused);
}

}  // namespace weir::proxy::fleet

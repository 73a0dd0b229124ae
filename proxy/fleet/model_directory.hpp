// Answers GET /v1/models and GET /v1/models/{id} from the replicas' own lists, and passes the lists on to the pools,
// which choose replicas by them. The watcher asks the replicas every few seconds, each with its own key if it has one.
// So a model that a replica loads or unloads is known within 5 s, or a little later where the replica is slow. An
// empty list says nothing.
//
// Some replicas want a key and have none in the settings. Such a replica is asked on behalf of each client that brings
// a credential, on the loop of that client: at most 16 such replicas a request, 64 requests at a time, 2 s. Its answer
// is for that client alone and is kept nowhere. Where clients have keys for weir, no replica is asked like that.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proxy/fleet/fleet.hpp"
#include "proxy/fleet/replica_stream.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/http/head.hpp"
#include "proxy/http/routes.hpp"
#include "proxy/http/writing.hpp"
#include "proxy/net/channel.hpp"

namespace weir::proxy::fleet {

/// Ends the questions for a client early, because it has left or weir stops. It is used on the loop's thread.
class Halt {
 public:
  void call() {
    called_ = true;
    if (stop_) stop_();
  }
  bool called() const { return called_; }
  /// Sets the function that ends the current questions; null once there are none.
  void stops(std::function<void()> what) { stop_ = std::move(what); }

 private:
  std::function<void()> stop_;
  bool called_ = false;
};

/// The models as they are known at one time. The object never changes; another one takes its place.
struct KnownModels {
  std::shared_ptr<const Snapshot> snapshot;
  std::vector<std::shared_ptr<const Replica>> keyed;  ///< Those that want a client's credential, in the file's order.
  ServedModels served;
  std::string text;  ///< The answer to GET /v1/models.
};

class ModelDirectory {
 public:
  /// Publishes the models that the settings name.
  explicit ModelDirectory(const Fleet& fleet) { follow(fleet.snapshot()); }

  /// Publishes the models of this snapshot. On the control thread.
  void follow(std::shared_ptr<const Snapshot> snapshot);
  /// Takes a replica's answer to GET /v1/models, and publishes what is new. On the control thread.
  void learn(const Replica& replica, const PageAnswer& answer);

  /// Answers a request of Route::models or Route::model, on the client's loop. `head`, `halt` and `key` outlive the
  /// wait. When it is halted, the replicas' connections are closed at once, and the answer has what is known. `key` is
  /// the client's where clients need one, else null: it is weir's business and no replica's, so none is asked on behalf
  /// of the client, and the answer has the models that the key may use.
  net::Awaitable<http::OwnAnswer> answer(const http::RequestHead& head, http::Route route, Halt& halt,
                                         const keys::ClientKey* key);

 private:
  void publish();

  std::shared_ptr<const Snapshot> snapshot_;  ///< The control thread uses it.
  Published<std::shared_ptr<const KnownModels>> known_;
  std::atomic<unsigned> asking_{0};  ///< Counts the clients for whom replicas are being asked.
};

}  // namespace weir::proxy::fleet

/**
 * References as the host knows them and as the sidecar does.
 *
 * The host scopes references by the plugin; one plugin stands for whichever provider the sidecar is configured
 * with. The sidecar's own workspace provider has the plugin's name. Ids of any other carry its name in front, so
 * that a reference of one stays foreign to another.
 */

const FOREIGN = "memory reference belongs to a different provider";

/** @param {{providerId: string, pluginId: string}} names */
export function referencesOf({ providerId, pluginId }) {
  const prefix = providerId === pluginId ? "" : `${providerId}:`;

  const toHost = (reference) => ({ ...reference, providerId: pluginId, id: prefix + reference.id });
  const citationToHost = (citation) =>
    citation.reference === undefined ? citation : { ...citation, reference: toHost(citation.reference) };

  return {
    /** Raises for what is another provider's. */
    toSidecar(reference) {
      if (reference?.providerId !== pluginId || !String(reference.id).startsWith(prefix)) throw new Error(FOREIGN);
      return { ...reference, providerId, id: reference.id.slice(prefix.length) };
    },

    /** A hit or a read with its own reference and those of its citations. */
    resultToHost(result) {
      if (result.reference === undefined) return result;
      return {
        ...result,
        reference: toHost(result.reference),
        ...(result.citations === undefined ? {} : { citations: result.citations.map(citationToHost) }),
      };
    },
  };
}

/** Find within the session, folded and unrendered text included. */

import { useMemo, useState } from "react";

import { Dialog } from "./dialog";
import { plural } from "./format";
import { nextLink } from "./links";
import { Loading } from "./parts";
import { Filters, HitLine, isFiltered, useSearch, type Filter } from "./search";
import { Icon } from "./icons";
import type { SessionStore } from "./store";

export default function Find({ store, onClose, onSelect }: { store: SessionStore; onClose: () => void; onSelect: (entry: string, block?: number) => void }) {
  const [query, setQuery] = useState("");
  const [filter, setFilter] = useState<Filter>({});
  const values = useMemo(() => {
    const rows = [...store.tree.rows.values()];
    const all = (of: (row: (typeof rows)[number]) => (string | undefined)[]) => [...new Set(rows.flatMap(of))].filter((one) => one !== undefined).sort();
    return { roles: all((row) => [row.role]), tools: all((row) => (row.calls ?? []).map((call) => call.name)), models: all((row) => (row.role === "assistant" ? [row.model] : [])) };
  }, [store]);
  const { found, problem, more } = useSearch(query, filter, { in: store.key });
  return (
    <Dialog title="Search in this session" onClose={onClose} wide>
      <div onKeyDown={(event) => nextLink(event, ".dialogbody button.hit")}>
        <input className="field big" value={query} onChange={(event) => setQuery(event.target.value)} placeholder='words, "a phrase", -without' aria-label="search in this session" />
        <Filters filter={filter} onChange={setFilter} values={values} />
        {problem !== undefined && <p className="err" role="alert"><Icon name="alert" />{problem}</p>}
        {found === undefined ? (query.trim() !== "" || isFiltered(filter)) && problem === undefined && <Loading /> : <p className="dim" role="status">{found.total === 0 ? "Nothing found." : plural(found.total, "match", "matches")}</p>}
        {found?.hits.map((hit, at) => <button key={at} type="button" className="hit" onClick={() => onSelect(hit.entry, hit.block)}><HitLine hit={hit} titled={false} /></button>)}
        {found?.next !== undefined && <button type="button" className="btn" onClick={more}>Show more</button>}
      </div>
    </Dialog>
  );
}

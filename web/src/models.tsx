/** A field for the name of a model, with the known ones to choose from. */

import { useEffect, useId, useState } from "react";

import { get } from "./http";
import { visible } from "./plain";
import type { Model } from "./types";

let known: Promise<Model[]> | undefined;

/** The models of the catalogue that have a wire, asked for once. */
function useModels(): Model[] {
  const [models, setModels] = useState<Model[]>([]);
  useEffect(() => {
    known ??= get<{ models: Model[] }>("/api/models", { limit: 400 }).then((answer) => answer.models.filter((one) => one.api !== ""));
    known.then(setModels, () => { known = undefined; });
  }, []);
  return models;
}

export function ModelField({ label, value, placeholder, onChange }: { label: string; value?: string; placeholder: string; onChange: (name: string | undefined) => void }) {
  const models = useModels();
  const list = useId();
  const choose = (name: string) => onChange(name.trim() || undefined);
  return (
    <>
      <input key={value} className="field model" list={list} defaultValue={value} placeholder={visible(placeholder)} aria-label={label} onChange={(event) => models.some((one) => one.name === event.target.value) && choose(event.target.value)} onKeyDown={(event) => event.key === "Enter" && choose(event.currentTarget.value)} onBlur={(event) => event.target.value.trim() === "" && value !== undefined && choose("")} />
      <datalist id={list}>{models.map((one) => <option key={one.name} value={one.name}>{one.api}</option>)}</datalist>
    </>
  );
}
